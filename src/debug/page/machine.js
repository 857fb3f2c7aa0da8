// Draws the Ps with what they run, the queues that all share, and the threads without a P.

let rows = [], shape = '';
const triangle = () => svg('svg', { class: 'tri', viewBox: '0 0 36 31' }, svg('path', { d: 'M18 1 L35 30 H1 Z' }), svg('text', { x: 18, y: 26 }));

// A goroutine as a ball with its number, which opens it.
function ball(small) {
  return h('button', { className: 'ball' + (small ? ' small' : ''), hidden: true, onclick: event => openGoroutine(+event.currentTarget.dataset.g) });
}

function setBall(element, g, name) {
  element.hidden = g === null;
  if (g === null) return;
  element.dataset.g = g;
  setText(element, g);
  element.title = `goroutine ${g}${name ? ', ' + name : ''}`;
}

// One row for each P; with very many, only squares.
function buildProcs(count, columns) {
  const grid = $('procs');
  grid.replaceChildren();
  grid.className = count > 160 ? 'tiles' : count > 10 ? 'dense' : count <= 4 ? 'few' : '';
  grid.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
  rows = [];
  const heads = () => h('div', { className: 'p head' }, h('span'), 'P', 'M', 'runs', 'next', 'queue', 'the last 20 s', 'busy');
  if (count <= 160) for (let i = 0; i < columns; i++) grid.append(withCells(heads()));
  const lines = Math.ceil(count / columns);
  const made = Array.from({ length: count }, (_, id) => (count > 160 ? buildTile(id) : buildRow(id)));
  // Columns are filled one after the other.
  for (let line = 0; line < lines; line++) {
    for (let column = 0; column < columns; column++) {
      const row = made[count > 160 ? line * columns + column : column * lines + line];
      grid.append(row ? row.element : h('span'));
    }
  }
  rows = made;
  grid.append(svg('svg', { class: 'arrows' }));
}

function withCells(head) {
  for (const child of [...head.childNodes]) if (child.nodeType === 3) child.replaceWith(h('span', {}, child.textContent));
  return head;
}

function buildTile(id) {
  const element = h('div', { className: 'idle' }, h('div', { className: 'square' }, String(id)));
  return { element, tile: true };
}

function buildRow(id) {
  const row = { square: h('div', { className: 'square' }, 'P' + id), tri: triangle(), run: ball(), name: h('span'), next: ball(true), nextName: h('span'), dots: h('div', { className: 'queue' }), line: h('canvas', { role: 'img' }) };
  row.share = h('span', { className: 'share' });
  row.element = h('div', { className: 'p' }, h('span'), row.square, row.tri,
    h('div', { className: 'g running' }, row.run, row.name), h('div', { className: 'g next runnable' }, row.next, row.nextName), row.dots, row.line, row.share);
  return row;
}

function drawMachine(sample, before) {
  const width = $('procs').clientWidth, count = sample.ps.length;
  const columns = count > 160 ? Math.max(1, Math.floor(width / 38)) : count > 10 ? Math.max(1, Math.min(3, Math.floor(width / 430), Math.ceil(count / 8))) : 1;
  if (shape !== count + '/' + columns) { shape = count + '/' + columns; buildProcs(count, columns); }
  const past = recent(20000), colours = readColours();
  sample.ps.forEach((p, i) => drawP(rows[i], p, before?.ps[i], past, colours));
  drawSteals(sample, before);
  drawShared(sample);
}

function drawP(row, p, before, past, colours) {
  const moved = before && p.handOffs > before.handOffs;
  if (row.tile) {
    setClass(row.element, p.state);
    setText(row.element.firstChild, p.length || p.id);
    row.element.title = `P${p.id}, ${p.state}, ${p.length} in its queue` + (p.g === null ? '' : `, runs goroutine ${p.g} ${p.name}`);
    return;
  }
  setClass(row.element, `p ${p.state}` + (moved ? ' flash' : ''));
  row.tri.style.visibility = p.m === null ? 'hidden' : '';
  setText(row.tri.lastChild, p.m === null ? '' : p.m);
  row.tri.setAttribute('aria-label', p.m === null ? 'no M' : 'M' + p.m);
  row.square.title = `P${p.id} is ${p.state === 'syscall' ? 'left behind in a marked blocking call' : p.state}`;
  setBall(row.run, p.g, p.name);
  setClass(row.name, p.g === null ? 'none' : '');
  setText(row.name, p.g === null ? { idle: 'idle', searching: p.m === null ? 'a thread wakes up for it' : 'looks for work', syscall: 'in a call', running: '' }[p.state] : p.name);
  setBall(row.next, p.next, p.nextName);
  setText(row.nextName, p.next === null ? '' : p.nextName);
  drawQueue(row.dots, p.length - (p.next === null ? 0 : 1));
  drawTimeline(row.line, p.id, past, colours);
}

function drawQueue(element, length) {
  const shownDots = Math.min(length, rows.length > 10 ? 6 : 12);
  if (+element.dataset.n === length) return;
  element.dataset.n = length;
  element.replaceChildren(h('b', {}, length > 0 ? String(length) : ''), ...Array.from({ length: shownDots }, () => h('i')));
}

// What a P did: a column for each sample.
function drawTimeline(canvas, id, past, colours) {
  const [ctx, w, height] = setUp(canvas);
  ctx.clearRect(0, 0, w, height);
  const end = past[past.length - 1].t, scale = w / 20000;
  let busy = 0;
  for (let i = 0; i < past.length; i++) {
    const p = past[i].ps[id];
    if (!p) continue;
    if (p.state === 'running') busy++;
    if (p.state === 'idle') continue;
    const x1 = w - (end - past[i].t) * scale, x0 = i ? Math.max(0, w - (end - past[i - 1].t) * scale) : x1 - 1;
    ctx.fillStyle = colours[p.state];
    ctx.fillRect(x0, 0, Math.max(x1 - x0, 0.6) + 0.3, height);
  }
  const share = Math.round(busy / past.length * 100);
  canvas.setAttribute('aria-label', `P${id} ran goroutines ${share} % of the time`);
  setText(canvas.nextSibling, share + ' %');
}

// Arrows from the victim to the thief, for what was stolen since the last sample that was shown: the largest.
const ARROWS = 8, LETTER = 6.5;
function drawSteals(sample, before) {
  const overlay = $('procs').querySelector('.arrows');
  overlay.replaceChildren();
  if (!before || rows[0]?.tile) return;
  const grid = $('procs').getBoundingClientRect(), dense = rows.length > 10;
  const place = row => { const r = row.square.getBoundingClientRect(); return { x: r.left - grid.left - 2, y: r.top - grid.top + r.height / 2 }; };
  const arrows = sample.ps.filter(p => before.ps[p.id] && p.stolen > before.ps[p.id].stolen && rows[p.victim] && p.victim !== p.id)
    .map(p => ({ count: p.stolen - before.ps[p.id].stolen, from: place(rows[p.victim]), to: place(rows[p.id]) }))
    .sort((a, b) => b.count - a.count).slice(0, ARROWS);
  // The short ones first: they are nearest to the Ps. Those that overlap are drawn side by side.
  const inColumn = arrows.filter(({ from, to }) => Math.abs(from.x - to.x) < 1), lanes = [];
  inColumn.sort((a, b) => Math.abs(a.from.y - a.to.y) - Math.abs(b.from.y - b.to.y));
  for (const arrow of inColumn) {
    const top = Math.min(arrow.from.y, arrow.to.y), bottom = Math.max(arrow.from.y, arrow.to.y);
    const isFree = lane => lane.every(other => other.x !== arrow.to.x || other.bottom <= top || other.top >= bottom);
    let lane = lanes.findIndex(isFree);
    if (lane < 0) lane = lanes.push([]) - 1;
    lanes[lane].push({ x: arrow.to.x, top, bottom });
    arrow.bend = dense ? 8 + Math.min(lane, 3) * 5 : 11 + Math.min(lane, 4) * 8;
  }
  const labels = [];
  for (const { from, to, bend, count } of arrows) {
    if (!bend) {
      // From another column: only its tip, because a line would cross all that is between.
      overlay.append(svg('path', { d: `M${to.x - 12} ${to.y}H${to.x}m-5 -4l5 4l-5 4` }));
      continue;
    }
    const down = to.y > from.y ? 1 : -1, y0 = from.y + 4 * down, y1 = to.y - 4 * down;
    overlay.append(svg('path', { d: `M${from.x} ${y0}C${from.x - bend} ${y0} ${to.x - bend} ${y1} ${to.x} ${y1}m-6 ${-4 * down}l6 ${4 * down}l-6 ${3 * down}` }));
    const label = placeLabel(labels, String(count), t => ({ x: to.x - 3 * bend * t * (1 - t), y: y0 + (y1 - y0) * t * t * (3 - 2 * t) }), Math.abs(y1 - y0));
    if (label) labels.push(label);
  }
  overlay.append(...labels.map(({ x, y, text }) => svg('text', { x, y: y + 4, 'text-anchor': 'middle' }, text)));
}

// A place on the curve where no other label is; undefined if there is none.
function placeLabel(labels, text, curve, height) {
  const half = text.length * LETTER / 2;
  if (height < 17) return undefined;
  const touches = (a, b) => Math.abs(a.x - b.x) < a.half + b.half + 2 && Math.abs(a.y - b.y) < 12;
  return [0.5, 0.4, 0.6, 0.3, 0.7].map(t => ({ ...curve(t), text, half })).find(label => !labels.some(other => touches(label, other)));
}

let boxes = null;
function buildShared() {
  const box = (name, help) => {
    const count = h('b'), body = h('div'), note = h('small', {}, help);
    return { count, body, note, element: h('div', { className: 'box' }, h('h3', {}, name, count), note, body) };
  };
  boxes = {
    global: box('Global queue', 'every P takes from it now and then'),
    preempted: box('Preempted', 'used up their slice; the others go first'),
    poller: box('Netpoller', ''), timers: box('Timers', ''),
    blocked: box('Threads in blocking calls', 'each keeps its goroutine; its P has gone to others'), idle: box('Idle threads', ''),
  };
  $('shared').replaceChildren(...Object.values(boxes).map(b => b.element));
}

function drawShared(sample) {
  if (!boxes) buildShared();
  const dots = (box, length) => {
    setText(box.count, counted(length));
    const n = Math.min(length, 24);
    if (box.body.childElementCount !== n) { box.body.className = 'dots'; box.body.replaceChildren(...Array.from({ length: n }, () => h('i'))); }
  };
  dots(boxes.global, sample.global);
  dots(boxes.preempted, sample.preempted);
  setText(boxes.poller.count, counted(sample.descriptors));
  setText(boxes.poller.note, `descriptors; ${sample.polling ? 'a thread waits for them' : 'busy Ps poll between goroutines'}`);
  setText(boxes.timers.count, counted(sample.timers));
  setText(boxes.timers.note, sample.due === null ? 'none is set' : sample.due === 0 ? 'the next is due now' : `the next is due in ${duration(sample.due)}`);
  const { spinning, blocked, preempted, parked } = sample.threads;
  setText(boxes.blocked.count, counted(blocked + preempted));
  const ms = sample.ms.filter(m => m.g !== null && m.state !== 'searching');
  boxes.blocked.body.className = 'ms';
  boxes.blocked.body.replaceChildren(...ms.slice(0, 24).map(drawM), ms.length < blocked + preempted || ms.length > 24 ? h('span', { className: 'none' }, `and ${counted(blocked + preempted - Math.min(ms.length, 24))} more`) : '');
  setText(boxes.idle.count, counted(spinning + parked));
  setText(boxes.idle.note, `${parked} sleep${parked === 1 ? 's' : ''}, ${spinning} look${spinning === 1 ? 's' : ''} for work`);
}

function drawM(m) {
  const sign = triangle();
  sign.lastChild.remove();
  const says = m.state === 'preempted' ? 'stopped inside libc' : m.marked ? 'marked' : 'not marked';
  return h('span', { className: 'm ' + m.state, title: `M${m.id}: ${says}` }, sign, 'M' + m.id,
    h('button', { className: 'link', onclick: () => openGoroutine(m.g) }, `${m.g} ${m.name ?? ''}`));
}
