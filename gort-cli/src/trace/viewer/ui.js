// The state of the viewer (`V`), its rows, and what the user does.

let T;  // the trace
const V = { mode: 'p', t0: 0, t1: 1, scroll: 0, goroutine: -1, span: -1, filter: null, isFound: null, pointer: null, range: null };
const $ = id => document.getElementById(id);

// Rows of the processors' view: the load, the runtime, the Ps, the tasks.
function procRows() {
  const list = [{ kind: 'load', height: LOAD }];
  if (T.ranges.length) {
    const bars = T.ranges.map(([name, , start, end]) => ({ name: T.strings[name], start, end }));
    list.push({ kind: 'bars', label: 'runtime', height: 20, bars, colour: () => C.runnable, ink: () => '#0b0d10' });
  }
  for (const { ids, sum, p } of T.rowsOfProcs) {
    list.push({ kind: 'p', p, label: 'P ' + T.procs[p], height: T.procs.length > 16 ? 20 : 32, at: i => ids[i], count: ids.length, sum });
  }
  lanes(T.tasks.map(([, , name, , start, end]) => ({ name: T.strings[name], start, end: end ?? T.end })), 8)
    .forEach((bars, i) => list.push({ kind: 'bars', label: i ? '' : 'tasks', height: 20, bars, colour: () => C.accent, ink: () => C.back }));
  let top = 0;
  const byProc = {};
  for (const row of list) { row.top = top; top += row.height; if (row.kind === 'p') byProc[row.p] = row; }
  return {
    height: top,
    forEachVisible(scroll, h, draw) {
      for (const row of list) if (row.top + row.height > scroll && row.top < scroll + h) draw(row, row.top - scroll, row.height);
    },
    at: y => list.find(row => y >= row.top && y < row.top + row.height),
    ofProc: p => byProc[p], ofGoroutine: () => null,
  };
}

// Puts bars that overlap into different lanes.
function lanes(bars, most) {
  const out = [];
  for (const bar of bars) {
    let lane = out.find(lane => lane[lane.length - 1].end <= bar.start);
    if (!lane && out.length < most) out.push(lane = []);
    if (lane) lane.push(bar);
  }
  return out;
}

// Rows of the goroutines' view: made when they are drawn, because there may be very many.
function goroutineRows() {
  const height = 20, { G } = T, order = V.filter ?? V.all, position = new Map();
  const row = i => {
    const g = order[i], lo = G.lo[g];
    return { kind: 'g', g, label: G.id[g] + ' ' + shortName(goroutineName(T, g)), at: k => lo + k, count: G.lo[g + 1] - lo };
  };
  if (V.goroutine >= 0) position.set(V.goroutine, order.indexOf(V.goroutine));
  return {
    height: order.length * height,
    forEachVisible(scroll, h, draw) {
      const last = Math.min(order.length, Math.ceil((scroll + h) / height));
      for (let i = Math.max(0, Math.floor(scroll / height)); i < last; i++) draw(row(i), i * height - scroll, height);
    },
    at: y => (y >= 0 && y < order.length * height ? row(Math.floor(y / height)) : undefined),
    ofProc: () => null,
    ofGoroutine(g) {
      if (!position.has(g)) position.set(g, order.indexOf(g));
      const i = position.get(g);
      return i < 0 ? null : { top: i * height, height };
    },
  };
}

let queued = false;
function redraw() {
  if (queued) return;
  queued = true;
  requestAnimationFrame(() => { queued = false; drawView(); drawOverview(); tellPosition(); tellRows(); });
}

function tellPosition() {
  $('position').textContent = `${duration(V.t0)} to ${duration(V.t1)}, ${duration(V.t1 - V.t0)} shown`;
  let hash = `mode=${V.mode}&t0=${Math.round(V.t0)}&t1=${Math.round(V.t1)}`;
  if (V.goroutine >= 0) hash += `&g=${T.G.id[V.goroutine]}`;
  if (V.filter) hash += '&search=' + encodeURIComponent($('search').value);
  history.replaceState(null, '', '#' + hash);
}

// What the canvas shows, as text for those who do not see it: a line for each row.
function tellRows() {
  const lines = [];
  V.rows.forEachVisible(V.scroll, V.canvas.clientHeight - RULER, row => {
    if (row.at && lines.length < 100) lines.push(element('li', `${row.label}: running ${share(row, RUNNING)} %, runnable ${share(row, RUNNABLE)} %`));
  });
  $('rows').replaceChildren(...lines);
}

// How much of the visible time a row is in a state, in per cent.
function share(row, state) {
  const { S } = T;
  let lo = 0, hi = row.count, sum = 0;
  while (lo < hi) { const mid = (lo + hi) >> 1; if (S.end[row.at(mid)] <= V.t0) lo = mid + 1; else hi = mid; }
  for (let i = lo, most = lo + 10000; i < row.count && i < most && S.start[row.at(i)] < V.t1; i++) {
    const s = row.at(i);
    if (S.state[s] === state) sum += Math.min(S.end[s], V.t1) - Math.max(S.start[s], V.t0);
  }
  return Math.round(sum / (V.t1 - V.t0) * 100);
}

function setRows() {
  V.rows = V.mode === 'p' ? procRows() : goroutineRows();
  $('mode-p').setAttribute('aria-pressed', V.mode === 'p');
  $('mode-g').setAttribute('aria-pressed', V.mode === 'g');
  scrollBy(0);
}

function scrollBy(dy) {
  const room = V.canvas.clientHeight - RULER;
  V.scroll = Math.max(0, Math.min(V.scroll + dy, V.rows.height - room));
  redraw();
}

function show(t0, t1) {
  const least = 20, width = Math.max(least, Math.min(t1 - t0, T.end || 1));
  V.t0 = Math.max(0, Math.min(t0, T.end - width));
  V.t1 = V.t0 + width;
  redraw();
}

function zoom(factor, x) {
  const share = x === undefined ? 0.5 : Math.max(0, (x - LABELS) / (V.canvas.clientWidth - LABELS));
  const t = V.t0 + share * (V.t1 - V.t0), width = (V.t1 - V.t0) * factor;
  show(t - share * width, t + (1 - share) * width);
}

const pan = share => show(V.t0 + share * (V.t1 - V.t0), V.t1 + share * (V.t1 - V.t0));

function select(g, s = -1) {
  V.goroutine = g; V.span = s;
  details();
  redraw();
}

// Makes the selected state visible, without a change of the zoom if it is.
function reveal(fitted) {
  const s = V.span, { S } = T;
  if (V.mode === 'g' && V.goroutine >= 0) {
    const row = V.rows.ofGoroutine(V.goroutine), room = V.canvas.clientHeight - RULER;
    if (row && (row.top < V.scroll || row.top + row.height > V.scroll + room)) V.scroll = Math.max(0, row.top - room / 2);
  }
  if (s >= 0) {
    const length = Math.max(S.end[s] - S.start[s], 50);
    if (fitted || length > V.t1 - V.t0) show(S.start[s] - length, S.end[s] + length);
    else if (S.start[s] < V.t0 || S.end[s] > V.t1) show((S.start[s] + S.end[s] - V.t1 + V.t0) / 2, (S.start[s] + S.end[s] + V.t1 - V.t0) / 2);
  }
  redraw();
}

function step(by) {
  if (V.goroutine < 0) return;
  const { G } = T, lo = G.lo[V.goroutine], hi = G.lo[V.goroutine + 1] - 1;
  select(V.goroutine, V.span < 0 ? lo : Math.max(lo, Math.min(hi, V.span + by)));
  reveal(false);
}

function hit(x, y) {
  const row = V.rows.at(y - RULER + V.scroll);
  if (!row || !row.at) return;
  if (x < LABELS) return row.kind === 'g' ? select(row.g) : undefined;
  const { S } = T, pixel = (V.t1 - V.t0) / (V.canvas.clientWidth - LABELS), t = V.t0 + (x - LABELS) * pixel;
  let lo = 0, hi = row.count;
  while (lo < hi) { const mid = (lo + hi) >> 1; if (S.end[row.at(mid)] < t - 2 * pixel) lo = mid + 1; else hi = mid; }
  if (lo < row.count && S.start[row.at(lo)] <= t + 2 * pixel) select(S.g[row.at(lo)], row.at(lo));
  else select(-1);
}

function element(tag, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

function link(g) {
  const node = element('button', `${T.G.id[g]} ${goroutineName(T, g)}`, 'link');
  node.onclick = () => { select(g, T.G.lo[g]); reveal(false); };
  return node;
}

function table(rows) {
  const node = element('table');
  for (const [name, value] of rows) {
    const line = node.insertRow();
    line.insertCell().textContent = name;
    line.insertCell().append(value);
  }
  return node;
}

function stack(title, id) {
  if (!T.stacks[id]?.length) return [];
  const list = element('ol');
  for (const index of T.stacks[id]) {
    const [fn, file, line] = T.frames[index], item = element('li', T.strings[fn] || '?');
    item.append(element('small', `${T.strings[file]}:${line}`));
    list.append(item);
  }
  return [element('h3', title), list];
}

const STATES = ['runnable', 'running', 'in a call', 'waiting'], CLASSES = ['runnable', 'running', 'syscall', 'waiting'];

function details() {
  const panel = $('details'), g = V.goroutine, { G, S } = T;
  panel.replaceChildren();
  if (g < 0) {
    panel.append(element('h2', 'Nothing selected'), element('p', 'Click a slice, or search for a goroutine. Press ? for the keys.'));
    return panel.append(...busiest());
  }
  const sums = [0, 0, 0, 0];
  for (let s = G.lo[g]; s < G.lo[g + 1]; s++) sums[S.state[s]] += S.end[s] - S.start[s];
  panel.append(element('h2', `Goroutine ${G.id[g]}: ${goroutineName(T, g)}`));
  const all = sums.reduce((a, b) => a + b) || 1, bar = element('div', undefined, 'bar');
  for (const i of [1, 2, 0, 3]) {
    const part = element('div', undefined, CLASSES[i]);
    part.style.cssText = `width:${sums[i] / all * 100}%;background:var(--c)`;
    bar.append(part);
  }
  panel.append(bar);
  const rows = [1, 2, 0, 3].map(i => [STATES[i], duration(sums[i])]);
  if (G.creator[g] >= 0) rows.push(['created by', link(G.creator[g])]);
  rows.push(['at the end', G.flags[g] & 2 ? 'has ended' : 'alive']);
  panel.append(table(rows));
  const buttons = element('div', undefined, 'buttons');
  for (const [text, act] of [['‹ previous', () => step(-1)], ['next ›', () => step(1)], ['zoom', () => reveal(true)]]) {
    const button = element('button', text);
    button.onclick = act;
    buttons.append(button);
  }
  panel.append(buttons);
  if (V.span >= 0) describe(panel, V.span);
  panel.append(...stack('Created at', G.createStack[g]));
}

function describe(panel, s) {
  const { S, G } = T;
  panel.append(element('h2', `${STATES[S.state[s]]} for ${duration(S.end[s] - S.start[s])}`));
  const rows = [['from', duration(S.start[s])], ['to', duration(S.end[s])]];
  if (S.reason[s]) rows.push(['reason', T.strings[S.reason[s]]]);
  if (CAUSES[S.cause[s]]) rows.push(['how', CAUSES[S.cause[s]]]);
  if (S.by[s] >= 0) rows.push(['by', link(S.by[s])]);
  if (S.p[s] >= 0) rows.push(['on', 'P ' + T.procs[S.p[s]]]);
  const next = s + 1 < G.lo[S.g[s] + 1] ? s + 1 : -1;
  if (next >= 0) rows.push(['then', STATES[S.state[next]] + (S.reason[next] ? ': ' + T.strings[S.reason[next]] : '')]);
  panel.append(table(rows));
  panel.append(...stack(S.by[s] >= 0 ? 'Made runnable at' : 'Stack', S.stack[s]));
  if (S.state[s] === RUNNING && next >= 0 && S.by[next] < 0) panel.append(...stack('Ended at', S.stack[next]));
  const inside = ([, g, start, end]) => g === S.g[s] && start < S.end[s] && (end ?? T.end) > S.start[s];
  const regions = T.regions.filter(inside).slice(0, 10);
  if (regions.length) panel.append(element('h3', 'Regions'), table(regions.map(([n, , a, b]) => [T.strings[n], duration((b ?? T.end) - a)])));
  const logs = T.logs.filter(([t, g]) => g === S.g[s] && t >= S.start[s] && t <= S.end[s]).slice(0, 20);
  if (logs.length) panel.append(element('h3', 'Logs'), table(logs.map(([, , k, v]) => [T.strings[k], T.strings[v]])));
}

function busiest() {
  const list = element('ol');
  for (const g of V.all.slice(0, 15)) {
    const item = element('li');
    item.append(link(g), element('small', `ran for ${duration(T.G.ran[g])}`));
    list.append(item);
  }
  return [element('h3', 'Goroutines that ran longest'), list];
}

function search(text) {
  const words = text.trim().toLowerCase(), { G } = T;
  if (!words) V.filter = null;
  else {
    const fits = T.strings.map(name => name.toLowerCase().includes(words)), number = words.replace(/^g/, '');
    V.filter = V.all.filter(g => String(G.id[g]) === number || fits[G.label[g]] || fits[G.fn[g]]);
  }
  V.isFound = V.filter && new Uint8Array(G.count);
  V.filter?.forEach(g => { V.isFound[g] = 1; });
  $('found').textContent = V.filter ? `${V.filter.length} found` : '';
  V.match = -1; V.scroll = 0;
  setRows();
}

function nextMatch() {
  if (!V.filter?.length) return;
  V.match = (V.match + 1) % V.filter.length;
  const g = V.filter[V.match];
  let s = T.G.lo[g];
  while (V.mode === 'p' && s + 1 < T.G.lo[g + 1] && T.S.p[s] < 0) s++;
  select(g, s);
  reveal(false);
}

function setMode(mode) { V.mode = mode; V.scroll = 0; setRows(); reveal(false); }

const KEYS = {
  '+': () => zoom(0.7, V.pointer), '=': () => zoom(0.7, V.pointer), w: () => zoom(0.7, V.pointer),
  '-': () => zoom(1.4, V.pointer), s: () => zoom(1.4, V.pointer),
  ArrowLeft: () => pan(-0.15), a: () => pan(-0.15), ArrowRight: () => pan(0.15), d: () => pan(0.15),
  ArrowUp: () => scrollBy(-40), ArrowDown: () => scrollBy(40), PageUp: () => scrollBy(-400), PageDown: () => scrollBy(400),
  n: () => step(1), p: () => step(-1), f: () => reveal(true), Enter: () => reveal(true),
  g: () => setMode(V.mode === 'p' ? 'g' : 'p'), 0: () => show(0, T.end), Home: () => show(0, T.end),
  '/': () => $('search').focus(), '?': () => $('help').showModal(),
  Escape: () => { select(-1); $('search').value = ''; search(''); },
};

function listen() {
  const view = V.canvas;
  document.addEventListener('keydown', event => {
    const typing = event.target.id === 'search', onButton = event.target.tagName === 'BUTTON' && event.key === 'Enter';
    if (event.ctrlKey || event.metaKey || event.altKey || onButton || $('help').open) return;
    if (typing) {
      if (event.key === 'Enter') nextMatch();
      if (event.key === 'Escape') { KEYS.Escape(); view.focus(); }
      return;
    }
    const act = KEYS[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  view.addEventListener('wheel', event => {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      if (event.shiftKey) scrollBy(event.deltaY || event.deltaX); else pan(event.deltaX / view.clientWidth);
    } else zoom(Math.exp(event.deltaY * 0.0015), event.offsetX);
  }, { passive: false });
  let drag = null;
  view.addEventListener('pointerdown', event => {
    view.setPointerCapture(event.pointerId);
    drag = { x: event.offsetX, y: event.offsetY, t0: V.t0, scroll: V.scroll, moved: false, range: event.shiftKey };
  });
  view.addEventListener('pointermove', event => {
    V.pointer = event.offsetX;
    if (!drag) return;
    const dx = event.offsetX - drag.x, dy = event.offsetY - drag.y;
    drag.moved ||= Math.abs(dx) + Math.abs(dy) > 4;
    if (!drag.moved) return;
    if (drag.range) { V.range = [drag.x, event.offsetX]; return redraw(); }
    V.scroll = drag.scroll; scrollBy(-dy);
    const t0 = drag.t0 - dx * (V.t1 - V.t0) / (view.clientWidth - LABELS);
    show(t0, t0 + V.t1 - V.t0);
  });
  view.addEventListener('pointerup', event => {
    if (drag && !drag.moved) hit(event.offsetX, event.offsetY);
    if (V.range) {
      const time = x => V.t0 + (x - LABELS) / (view.clientWidth - LABELS) * (V.t1 - V.t0);
      const [a, b] = V.range.map(time).sort((a, b) => a - b);
      V.range = null; show(a, b);
    }
    drag = null;
  });
  view.addEventListener('pointercancel', () => { drag = V.range = null; redraw(); });
  const toOverview = event => {
    if (!event.buttons) return;
    const t = (event.offsetX - LABELS) / (V.overview.clientWidth - LABELS) * T.end, half = (V.t1 - V.t0) / 2;
    show(t - half, t + half);
  };
  V.overview.addEventListener('pointerdown', toOverview);
  V.overview.addEventListener('pointermove', toOverview);
  $('mode-p').onclick = () => setMode('p');
  $('mode-g').onclick = () => setMode('g');
  $('in').onclick = () => zoom(0.6); $('out').onclick = () => zoom(1.6); $('fit').onclick = () => show(0, T.end);
  $('keys').onclick = () => $('help').showModal();
  $('search').oninput = event => search(event.target.value);
  addEventListener('hashchange', fromAddress);
  new ResizeObserver(() => scrollBy(0)).observe(view);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { readColours(); redraw(); });
}

// The address may name a view: #mode=g&t0=…&t1=…&g=…&search=…
function fromAddress() {
  const wanted = new URLSearchParams(location.hash.slice(1)), number = name => Number(wanted.get(name));
  V.mode = wanted.get('mode') === 'g' ? 'g' : 'p';
  $('search').value = wanted.get('search') ?? '';
  search($('search').value);
  if (number('t1') > number('t0')) show(number('t0'), number('t1'));
  if (!wanted.has('g')) return;
  const g = T.G.id.indexOf(number('g'));
  if (g < 0) return;
  const s = spanAt(T, g, (V.t0 + V.t1) / 2);
  select(g, s < 0 ? T.G.lo[g] : s);
  reveal(false);
}

async function begin() {
  V.canvas = $('view'); V.overview = $('overview');
  readColours();
  T = await decode($('data').textContent);
  V.t1 = T.end || 1;
  V.all = Array.from({ length: T.G.count }, (_, g) => g).sort((a, b) => T.G.ran[b] - T.G.ran[a] || a - b);
  document.title = T.name + ': gort trace';
  $('name').textContent = T.name;
  const n = number => number.toLocaleString('en');
  $('facts').textContent = `${duration(T.end)} · ${n(T.events)} events · ${T.procs.length} Ps · ${n(T.threads)} Ms · ${n(T.G.count)} goroutines`;
  $('damage').hidden = !T.damage;
  $('damage').textContent = T.damage ? 'The file is damaged; this is what comes before: ' + T.damage : '';
  listen();
  fromAddress();
  details();
  document.body.dataset.ready = 'yes';
}

begin().catch(error => {
  document.body.dataset.ready = 'failed';
  $('facts').textContent = 'This browser cannot show the trace: ' + error;
});
