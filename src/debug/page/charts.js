// Draws numbers over time, and the histogram of latencies.

let C = null;  // the colours of the theme
function readColours() {
  if (C) return C;
  const style = getComputedStyle(document.documentElement);
  C = {};
  for (const name of ['panel', 'line', 'text', 'dim', 'accent', 'running', 'syscall', 'runnable', 'waiting', 'idle', 'searching', 'steal', 'soft'])
    C[name] = style.getPropertyValue('--' + name).trim();
  return C;
}

function setUp(canvas) {
  const ratio = devicePixelRatio || 1, box = canvas.getBoundingClientRect();
  const width = Math.round(box.width * ratio), height = Math.round(box.height * ratio);
  if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
  const ctx = canvas.getContext('2d');
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  return [ctx, box.width, box.height];
}

// Lines with a name, the present value, and a curve of the last minute.
function buildSparks(parent, kinds) {
  const sparks = kinds.map(([name, colour]) => {
    const value = h('b'), canvas = h('canvas', { role: 'img', 'aria-label': name + ' over time' });
    parent.append(h('div', { className: 'spark' }, h('span', {}, name), value, canvas));
    return { name, colour, value, canvas };
  });
  return (index, points, now) => {
    const spark = sparks[index];
    setText(spark.value, short(now));
    drawCurve(spark.canvas, points, readColours()[spark.colour]);
  };
}

// `points` are pairs of time (ms) and value; a minute is drawn.
function drawCurve(canvas, points, colour) {
  const [ctx, w, height] = setUp(canvas);
  ctx.clearRect(0, 0, w, height);
  if (points.length < 2) return;
  const end = points[points.length - 1][0], span = Math.min(60000, Math.max(10000, end - points[0][0])), most = Math.max(1e-9, ...points.map(([, v]) => v)) * 1.08;
  const x = t => w - (end - t) / span * w, y = v => height - 1 - v / most * (height - 3);
  ctx.beginPath();
  points.forEach(([t, v], i) => (i ? ctx.lineTo(x(t), y(v)) : ctx.moveTo(x(t), y(v))));
  ctx.strokeStyle = colour; ctx.lineWidth = 1.5; ctx.lineJoin = 'round'; ctx.stroke();
  ctx.lineTo(x(end), height); ctx.lineTo(x(points[0][0]), height); ctx.closePath();
  ctx.globalAlpha = 0.14; ctx.fillStyle = colour; ctx.fill(); ctx.globalAlpha = 1;
}

// Samples in groups of ten, whose mean is drawn: a curve of a minute has no place for more.
function halfSeconds(samples) {
  const groups = [];
  for (const sample of samples) {
    const last = groups[groups.length - 1];
    if (last && Math.floor(last[0].n / 10) === Math.floor(sample.n / 10)) last.push(sample);
    else groups.push([sample]);
  }
  return groups;
}

let drawStates = null, drawRates = null;
const RATES = [['started', 'created', 'running'], ['waits', 'parks', 'waiting'], ['steals', 'steals', 'steal'], ['hand-offs', 'handOffs', 'accent'], ['preempted', null, 'runnable']];
const preemptions = fact => fact.preempted + fact.preemptedBySignal;

function drawCharts(t) {
  const facts = factsUntil(t), now = facts[facts.length - 1];
  if (!now) return;
  drawStates ??= buildSparks($('states'), [['running', 'running'], ['runnable', 'runnable'], ['in calls', 'syscall'], ['waiting', 'waiting'], ['all', 'accent']]);
  // From the samples, as everything above it: the picture, and the numbers on top.
  const kinds = [s => s.states.running, s => s.states.runnable, s => s.states.syscall, s => s.states.waiting, s => s.goroutines];
  const past = halfSeconds(recent(60000)), last = shown();
  kinds.forEach((of, i) => drawStates(i, past.map(some => [some[some.length - 1].t, some.reduce((sum, s) => sum + of(s), 0) / some.length]), of(last)));
  drawRates ??= buildSparks($('rates'), RATES.map(([name, , colour]) => [name, colour]));
  RATES.forEach(([, key], i) => {
    const of = key ? fact => fact[key] : preemptions, points = [];
    for (let k = 1; k < facts.length; k++) points.push([facts[k].t, (of(facts[k]) - of(facts[k - 1])) / (facts[k].t - facts[k - 1].t) * 1000]);
    drawRates(i, points, points.length ? points[points.length - 1][1] : 0);
  });
  drawReasons(now);
  drawLatency(facts, now);
  drawNumbers(facts, now);
}

// The latencies of the last ten seconds; all there are if these are too few.
function recentLatencies(facts, now) {
  const before = facts.find(fact => fact.t >= now.t - 10000);
  const buckets = before ? difference(now.latencies, before.latencies) : [];
  const count = buckets.reduce((sum, [, n]) => sum + n, 0);
  return count >= 20 ? [buckets, 'of the last 10 s'] : [now.latencies, 'since the start'];
}

function drawLatency(facts, now) {
  const [buckets, note] = recentLatencies(facts, now), [ctx, w, height] = setUp($('latency')), c = readColours();
  setText($('latency-note'), note);
  ctx.clearRect(0, 0, w, height);
  const first = 9, last = 30, bottom = height - 18, sums = new Array(last - first).fill(0);  // 512 ns to 1 s, by powers of two
  for (const [ns, count] of buckets) sums[Math.max(0, Math.min(last - first - 1, Math.floor(Math.log2(Math.max(ns, 1))) - first))] += count;
  const most = Math.max(1, ...sums), step = w / sums.length;
  ctx.fillStyle = c.accent;
  sums.forEach((sum, i) => { const tall = sum / most * (bottom - 32); ctx.fillRect(i * step + 1, bottom - tall, step - 2, tall); });
  ctx.fillStyle = c.line; ctx.fillRect(0, bottom, w, 1);
  ctx.font = '10.5px system-ui, sans-serif'; ctx.textBaseline = 'middle';
  const x = ns => (Math.log2(ns) - first) * step;
  ctx.fillStyle = c.dim; ctx.textAlign = 'center';
  for (const [ns, name] of [[1e3, '1 µs'], [1e4, '10 µs'], [1e5, '100 µs'], [1e6, '1 ms'], [1e7, '10 ms'], [1e8, '100 ms']]) ctx.fillText(name, x(ns), height - 8);
  const marks = [['p50', quantile(buckets, 0.5)], ['p99', quantile(buckets, 0.99)]].filter(([, ns]) => ns);
  marks.forEach(([name, ns], i) => {
    const at = Math.max(1, Math.min(w - 1, x(ns)));
    ctx.fillStyle = c.steal; ctx.fillRect(at, 2, 1, bottom - 2);
    const right = i === 0 ? at > 80 : at > w - 80;
    ctx.textAlign = right ? 'right' : 'left';
    ctx.fillText(`${name} ${duration(ns)}`, at + (right ? -4 : 4), 8 + (right && i ? 13 : 0));
  });
  $('latency').setAttribute('aria-label', marks.map(([name, ns]) => `${name} ${duration(ns)}`).join(', '));
}

function drawReasons(now) {
  const reasons = Object.entries(now.reasons).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 7);
  const most = Math.max(1, ...reasons.map(([, count]) => count));
  const parent = $('reasons');
  if (parent.contains(document.activeElement) && parent.childElementCount === reasons.length && reasons.every(([name], i) => parent.children[i].dataset.name === name)) {
    reasons.forEach(([, count], i) => setText(parent.children[i].lastChild, short(count)));
    return;
  }
  parent.replaceChildren(...reasons.map(([name, count]) => {
    const bar = h('i');
    bar.style.width = Math.max(1, count / most * 100) + '%';
    const row = h('button', { className: 'bar', title: `show the goroutines in ${name}`, onclick: () => filter({ state: name }) }, h('span', {}, name), bar, h('b', {}, short(count)));
    row.dataset.name = name;
    return row;
  }), reasons.length ? '' : h('p', { className: 'none' }, 'nobody waits'));
}

let numbers = null;
function drawNumbers(facts, now) {
  const sample = shown(), kinds = ['goroutines', 'Ps busy', 'runnable', 'threads', 'switches / s', 'latency p50', 'latency p99'];
  numbers ??= kinds.map(name => { const value = h('b'); $('numbers').append(h('div', {}, value, h('span', {}, name))); return value; });
  const past = recent(1000), first = past[0], [buckets] = recentLatencies(facts, now);
  const switches = sample.ps.reduce((sum, p) => sum + (first.ps[p.id] ? (p.ticks - first.ps[p.id].ticks + 2 ** 32) % 2 ** 32 : 0), 0);
  const busy = past.reduce((sum, s) => sum + s.ps.filter(p => p.state === 'running').length, 0) / past.length;
  const threads = Object.values(sample.threads).reduce((sum, n) => sum + n, 0);
  const values = [counted(sample.goroutines), busy.toFixed(1) + ' / ' + sample.ps.length, counted(sample.states.runnable),
    counted(threads), sample.t > first.t ? short(switches / (sample.t - first.t) * 1000) : '–', duration(quantile(buckets, 0.5)), duration(quantile(buckets, 0.99))];
  values.forEach((value, i) => setText(numbers[i], value));
}
