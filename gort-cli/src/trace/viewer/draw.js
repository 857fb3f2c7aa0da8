// Draws the timeline and the overview. Nothing here changes the state of the viewer (`V`, in ui.js).

const LABELS = 160, RULER = 26, LOAD = 70;
let C = {};  // the colours of the theme

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ['back', 'panel', 'line', 'text', 'dim', 'accent', 'running', 'syscall', 'runnable',
    'waiting', 'grid', 'select', 'row']) C[name] = style.getPropertyValue('--' + name).trim();
  C.states = [C.runnable, C.running, C.syscall, C.waiting];
  C.dark = matchMedia('(prefers-color-scheme: dark)').matches;
}

// Goroutines with the same function have the same colour.
function colourOf(trace, g) {
  const hash = Math.imul(trace.G.fn[g] || trace.G.label[g], 2654435761) >>> 0;
  const hue = (hash >>> 8) % 24 * 15;
  return C.dark ? `hsl(${hue} 45% 52%)` : `hsl(${hue} 52% 58%)`;
}

function setUp(canvas) {
  const ratio = devicePixelRatio || 1, box = canvas.getBoundingClientRect();
  const width = Math.round(box.width * ratio), height = Math.round(box.height * ratio);
  if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
  const ctx = canvas.getContext('2d');
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.font = '11px system-ui, sans-serif';
  ctx.textBaseline = 'middle';
  return [ctx, box.width, box.height];
}

function niceStep(span, parts) {
  const raw = Math.max(span / parts, 1), power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find(n => n * power >= raw);
}

function drawRuler(ctx, w, h) {
  const step = niceStep(V.t1 - V.t0, (w - LABELS) / 110);
  ctx.fillStyle = C.panel; ctx.fillRect(0, 0, w, RULER);
  for (let t = Math.ceil(V.t0 / step) * step; t < V.t1; t += step) {
    const x = LABELS + (t - V.t0) / (V.t1 - V.t0) * (w - LABELS);
    ctx.fillStyle = C.grid; ctx.fillRect(x, RULER, 1, h);
    ctx.fillStyle = C.line; ctx.fillRect(x, RULER - 6, 1, 6);
    ctx.fillStyle = C.dim; ctx.fillText(tick(t, step), x + 4, RULER / 2);
  }
  ctx.fillStyle = C.line; ctx.fillRect(0, RULER - 1, w, 1);
}

function tick(t, step) {
  const [unit, size] = t >= 1e9 ? ['s', 1e9] : t >= 1e6 ? ['ms', 1e6] : t >= 1e3 ? ['µs', 1e3] : ['ns', 1];
  const digits = Math.max(0, Math.ceil(Math.log10(size / step)));
  return (t / size).toFixed(Math.min(digits, 9)) + ' ' + unit;
}

// Draws sorted spans. What is narrower than a pixel is drawn as columns, as dense as it is filled.
function drawSpans(ctx, row, y, h, w, fill) {
  const { S } = T, { at, count, sum } = row, scale = (w - LABELS) / (V.t1 - V.t0);
  let lo = 0, hi = count;
  while (lo < hi) { const mid = (lo + hi) >> 1; if (S.end[at(mid)] <= V.t0) lo = mid + 1; else hi = mid; }
  for (let i = lo; i < count;) {
    const s = at(i);
    if (S.start[s] >= V.t1) break;
    const x0 = LABELS + Math.max(0, (S.start[s] - V.t0) * scale);
    const x1 = Math.min(w, LABELS + (S.end[s] - V.t0) * scale);
    if (x1 - x0 >= 1.2) {
      ctx.fillStyle = fill(s);
      const gap = x1 - x0 > 4 ? 0.6 : 0;
      ctx.fillRect(x0, y, x1 - x0 - gap, h);
      if (x1 - x0 > 44 && h > 10) drawName(ctx, s, x0, x1, y, h);
      i++;
      continue;
    }
    // All spans that begin in this pixel.
    const until = V.t0 + (Math.floor(x0 - LABELS) + 1) / scale;
    let step = 1, j = i + 1;
    while (j < count && S.start[at(j)] < until) { j += step; step *= 2; }
    let a = Math.max(i + 1, j - step), b = Math.min(j, count);
    while (a < b) { const mid = (a + b) >> 1; if (S.start[at(mid)] < until) a = mid + 1; else b = mid; }
    // The last of them may go on into other pixels: it is drawn for itself.
    if (a - 1 > i && (S.end[at(a - 1)] - S.start[at(a - 1)]) * scale >= 1.2) a--;
    const share = sum ? Math.min(1, (sum[a] - sum[i]) * scale) : 1;
    ctx.globalAlpha = sum ? 0.15 + 0.85 * share : 1;
    ctx.fillStyle = fill(s);
    ctx.fillRect(Math.floor(x0), y, 1, h);
    ctx.globalAlpha = 1;
    i = Math.max(a, i + 1);
  }
}

function drawName(ctx, s, x0, x1, y, h) {
  const { S } = T;
  const text = V.mode === 'p' ? 'G' + T.G.id[S.g[s]] + ' ' + shortName(goroutineName(T, S.g[s]))
    : T.strings[S.reason[s]] || (S.p[s] >= 0 ? 'P ' + T.procs[S.p[s]] : '');
  ctx.save();
  ctx.beginPath(); ctx.rect(x0, y, x1 - x0 - 3, h); ctx.clip();
  ctx.fillStyle = (V.mode === 'p' ? isDimmed(s) : S.state[s] === WAITING) ? C.text : '#0b0d10';
  ctx.fillText(text, x0 + 4, y + h / 2 + 0.5);
  ctx.restore();
}

// The last parts of a path. Closures are only marked: "main::{}".
function shortName(name) {
  const plain = name.replaceAll('::{{closure}}', ''), closure = plain === name ? '' : '::{}';
  if (!plain.includes('::')) return plain.slice(plain.lastIndexOf('/') + 1) + closure;
  return plain.split('::').slice(closure ? -1 : -2).join('::') + closure;
}

function drawLabel(ctx, text, y, h, strong) {
  ctx.save();
  ctx.beginPath(); ctx.rect(0, y, LABELS - 8, h); ctx.clip();
  ctx.fillStyle = strong ? C.text : C.dim;
  ctx.fillText(text, 10, y + h / 2);
  ctx.restore();
}

// Whether a slice on a P is not of the goroutine that is selected, or not of those that were searched for.
function isDimmed(s) {
  const g = T.S.g[s];
  return V.goroutine >= 0 ? g !== V.goroutine : Boolean(V.isFound && !V.isFound[g]);
}

function procFill(s) {
  const { S } = T;
  if (isDimmed(s)) return S.state[s] === SYSCALL ? C.line : C.waiting;
  return S.state[s] === SYSCALL ? C.syscall : colourOf(T, S.g[s]);
}

// How many goroutines run and wait for a P, over time.
function drawLoad(ctx, y, h, w) {
  const bins = Math.max(1, Math.min(600, Math.floor((w - LABELS) / 2)));
  const key = [V.t0, V.t1, bins].join();
  if (V.load?.key !== key) {
    V.load = { key, running: density(T, RUNNING, bins, V.t0, V.t1), runnable: density(T, RUNNABLE, bins, V.t0, V.t1) };
  }
  const { running, runnable } = V.load, step = (w - LABELS) / bins;
  let most = T.procs.length;
  for (let i = 0; i < bins; i++) most = Math.max(most, running[i] + runnable[i]);
  for (let i = 0; i < bins; i++) {
    const a = running[i] / most * h, b = runnable[i] / most * h, x = LABELS + i * step;
    ctx.fillStyle = C.running; ctx.fillRect(x, y + h - a, step + 0.3, a);
    ctx.fillStyle = C.runnable; ctx.fillRect(x, y + h - a - b, step + 0.3, b);
  }
  drawLabel(ctx, 'running, runnable', y, 18, true);
  drawLabel(ctx, 'most ' + (most < 10 ? most.toFixed(1) : Math.round(most)), y + 16, 18, false);
}

function drawBars(ctx, bars, y, h, w, colour, ink) {
  const scale = (w - LABELS) / (V.t1 - V.t0);
  for (const { start, end, name } of bars) {
    if (end < V.t0 || start > V.t1) continue;
    const x0 = LABELS + Math.max(0, (start - V.t0) * scale), x1 = Math.min(w, LABELS + (end - V.t0) * scale);
    ctx.fillStyle = colour; ctx.fillRect(x0, y, Math.max(1, x1 - x0 - 0.6), h);
    if (x1 - x0 < 40) continue;
    ctx.save(); ctx.beginPath(); ctx.rect(x0, y, x1 - x0 - 3, h); ctx.clip();
    ctx.fillStyle = ink; ctx.fillText(name, x0 + 4, y + h / 2); ctx.restore();
  }
}

function drawView() {
  const [ctx, w, h] = setUp(V.canvas);
  ctx.fillStyle = C.back; ctx.fillRect(0, 0, w, h);
  drawRuler(ctx, w, h);
  ctx.save();
  ctx.beginPath(); ctx.rect(0, RULER, w, h - RULER); ctx.clip();
  V.rows.forEachVisible(V.scroll, h - RULER, (row, top, rowHeight) => {
    const y = RULER + top;
    ctx.fillStyle = C.line; ctx.globalAlpha = 0.5; ctx.fillRect(0, y + rowHeight - 1, w, 1); ctx.globalAlpha = 1;
    if (row.kind === 'load') return drawLoad(ctx, y + 4, rowHeight - 8, w);
    if (row.kind === 'bars') {
      drawLabel(ctx, row.label, y, rowHeight, true);
      return drawBars(ctx, row.bars, y + 2, rowHeight - 5, w, row.colour(), row.ink());
    }
    const chosen = row.g !== undefined && row.g === V.goroutine;
    if (chosen) { ctx.fillStyle = C.accent; ctx.fillRect(0, y, 3, rowHeight - 1); }
    drawLabel(ctx, row.label, y, rowHeight, row.kind === 'p' || chosen);
    const fill = row.kind === 'p' ? procFill : s => C.states[T.S.state[s]];
    if (row.kind === 'g') drawGoroutine(ctx, row, y, rowHeight, w, fill);
    else drawSpans(ctx, row, y + 2, rowHeight - 5, w, fill);
  });
  drawSelection(ctx, w);
  if (V.range) {
    ctx.fillStyle = C.accent; ctx.globalAlpha = 0.18;
    ctx.fillRect(Math.min(...V.range), RULER, Math.abs(V.range[1] - V.range[0]), h); ctx.globalAlpha = 1;
  }
  ctx.restore();
  ctx.fillStyle = C.line; ctx.fillRect(LABELS - 1, 0, 1, h);
}

// A wait is thin, so that the states in which something happens stand out.
function drawGoroutine(ctx, row, y, h, w, fill) {
  const { S } = T, scale = (w - LABELS) / (V.t1 - V.t0);
  const x0 = LABELS + Math.max(0, (S.start[row.at(0)] - V.t0) * scale);
  const x1 = Math.min(w, LABELS + (S.end[row.at(row.count - 1)] - V.t0) * scale);
  if (x1 > x0) { ctx.fillStyle = C.waiting; ctx.fillRect(x0, y + h / 2 - 1, x1 - x0, 2); }
  drawSpans(ctx, row, y + 3, h - 7, w, fill);
}

function place(s) {
  const { S } = T;
  const row = V.mode === 'p' ? (S.p[s] >= 0 ? V.rows.ofProc(S.p[s]) : null) : V.rows.ofGoroutine(S.g[s]);
  return row && { y: RULER + row.top - V.scroll, h: row.height };
}

// A frame around the selected state, and an arrow from whoever made the goroutine runnable.
function drawSelection(ctx, w) {
  const s = V.span, { S } = T;
  if (s < 0) return;
  const scale = (w - LABELS) / (V.t1 - V.t0), x = t => LABELS + (t - V.t0) * scale, where = place(s);
  if (!where) return;
  ctx.strokeStyle = C.select; ctx.lineWidth = 2;
  ctx.save();
  ctx.beginPath(); ctx.rect(LABELS, RULER, w, 1e5); ctx.clip();
  ctx.strokeRect(x(S.start[s]), where.y + 2, Math.max(2, x(S.end[s]) - x(S.start[s])), where.h - 5);
  const before = S.state[s] === RUNNABLE ? s : s > T.G.lo[S.g[s]] ? s - 1 : -1;
  if (before >= 0 && S.state[before] === RUNNABLE && S.by[before] >= 0) {
    const waker = spanAt(T, S.by[before], S.start[before]), from = waker >= 0 && place(waker);
    if (from) arrow(ctx, x(S.start[before]), from.y + from.h / 2, x(S.start[s]), where.y + where.h / 2);
  }
  ctx.restore();
}

function arrow(ctx, x0, y0, x1, y1) {
  ctx.beginPath(); ctx.moveTo(x0, y0); ctx.bezierCurveTo(x0 + 25, y0, x1 - 25, y1, x1, y1); ctx.stroke();
  ctx.fillStyle = C.select;
  ctx.beginPath(); ctx.moveTo(x1, y1); ctx.lineTo(x1 - 7, y1 - 4); ctx.lineTo(x1 - 7, y1 + 4); ctx.fill();
  ctx.beginPath(); ctx.arc(x0, y0, 3, 0, 7); ctx.fill();
}

function drawOverview() {
  const [ctx, w, h] = setUp(V.overview);
  ctx.fillStyle = C.panel; ctx.fillRect(0, 0, w, h);
  const bins = Math.max(1, Math.floor((w - LABELS) / 2));
  if (V.whole?.bins !== bins) V.whole = { bins, values: density(T, RUNNING, bins, 0, T.end) };
  const values = V.whole.values, step = (w - LABELS) / bins;
  let most = T.procs.length;
  for (const value of values) most = Math.max(most, value);
  ctx.fillStyle = C.running;
  values.forEach((v, i) => ctx.fillRect(LABELS + i * step, h - v / most * (h - 8), step + 0.3, v / most * (h - 8)));
  const a = LABELS + V.t0 / T.end * (w - LABELS), b = LABELS + V.t1 / T.end * (w - LABELS);
  ctx.fillStyle = C.back; ctx.globalAlpha = 0.65;
  ctx.fillRect(LABELS, 0, a - LABELS, h); ctx.fillRect(b, 0, w - b, h); ctx.globalAlpha = 1;
  ctx.strokeStyle = C.accent; ctx.lineWidth = 1.5; ctx.strokeRect(a, 1, Math.max(2, b - a), h - 2);
  ctx.fillStyle = C.dim; ctx.fillText('whole trace', 10, h / 2);
}
