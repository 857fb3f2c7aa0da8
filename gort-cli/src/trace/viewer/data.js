'use strict';
// Decodes the trace that is in the page. html.rs writes it: change both together.

const RUNNABLE = 0, RUNNING = 1, SYSCALL = 2, WAITING = 3;
const CAUSES = ['before the trace', 'created', 'unblocked', 'stopped', 'back from a call', '', 'its P was taken'];

async function decode(base64) {
  const text = atob(base64.trim());
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return parse(new Uint8Array(await new Response(stream).arrayBuffer()));
}

function parse(bytes) {
  let at = 0;
  // A number in LEB128. Shifts have 32 bits in this language, so large ones are multiplied.
  const number = () => {
    let byte = bytes[at++];
    if (byte < 128) return byte;
    let value = byte & 127, factor = 128;
    do { byte = bytes[at++]; value += (byte & 127) * factor; factor *= 128; } while (byte >= 128);
    return value;
  };
  const length = number();
  const trace = JSON.parse(new TextDecoder().decode(bytes.subarray(at, at + length)));
  at += length;
  const count = trace.goroutines, spans = trace.spans;
  const G = {
    id: new Float64Array(count), label: new Uint32Array(count), fn: new Uint32Array(count),
    creator: new Int32Array(count), createStack: new Uint32Array(count), flags: new Uint8Array(count),
    lo: new Uint32Array(count + 1), ran: new Float64Array(count), count,
  };
  const S = {
    start: new Float64Array(spans), end: new Float64Array(spans), g: new Uint32Array(spans),
    p: new Int32Array(spans), m: new Int32Array(spans), by: new Int32Array(spans),
    reason: new Uint32Array(spans), stack: new Uint32Array(spans),
    state: new Uint8Array(spans), cause: new Uint8Array(spans), count: spans,
  };
  let s = 0;
  for (let g = 0; g < count; g++) {
    G.id[g] = number(); G.label[g] = number(); G.fn[g] = number(); G.creator[g] = number() - 1;
    G.createStack[g] = number(); G.flags[g] = number();
    let time = number();
    G.lo[g] = s;
    for (let left = number(); left > 0; left--, s++) {
      S.start[s] = time; time += number(); S.end[s] = time; S.g[s] = g;
      S.state[s] = bytes[at] & 3; S.cause[s] = bytes[at++] >> 2;
      S.p[s] = number() - 1; S.m[s] = number() - 1; S.by[s] = number() - 1;
      S.reason[s] = number(); S.stack[s] = number();
      if (S.state[s] === RUNNING) G.ran[g] += S.end[s] - S.start[s];
    }
  }
  G.lo[count] = s;
  trace.G = G; trace.S = S;
  indexProcs(trace);
  return trace;
}

// The spans on each P, sorted by time, and the sum of their lengths before each.
function indexProcs(trace) {
  const S = trace.S, lists = trace.procs.map(() => []);
  for (let s = 0; s < S.count; s++) if (S.p[s] >= 0) lists[S.p[s]].push(s);
  trace.rowsOfProcs = lists.map((list, p) => {
    const ids = Uint32Array.from(list).sort((a, b) => S.start[a] - S.start[b] || S.end[a] - S.end[b]);
    const sum = new Float64Array(ids.length + 1);
    for (let i = 0; i < ids.length; i++) sum[i + 1] = sum[i] + S.end[ids[i]] - S.start[ids[i]];
    return { ids, sum, p };
  });
  trace.rowsOfProcs.sort((a, b) => trace.procs[a.p] - trace.procs[b.p]);
  trace.rowOfProc = [];
  trace.rowsOfProcs.forEach((row, i) => { trace.rowOfProc[row.p] = i; });
}

// How many goroutines were in a state in each of `bins` equal parts of the time, on average.
function density(trace, state, bins, from, to) {
  const S = trace.S, width = (to - from) / bins || 1, change = new Float64Array(bins + 2), part = new Float64Array(bins + 1);
  for (let s = 0; s < S.count; s++) {
    if (S.state[s] !== state || S.end[s] <= from || S.start[s] >= to) continue;
    const a = Math.max(0, (S.start[s] - from) / width), b = Math.min(bins, (S.end[s] - from) / width);
    const i = Math.floor(a), j = Math.floor(b);
    if (i === j) { part[i] += b - a; continue; }
    part[i] += i + 1 - a; part[j] += b - j; change[i + 1]++; change[j]--;
  }
  const out = new Float64Array(bins);
  for (let i = 0, open = 0; i < bins; i++) { open += change[i]; out[i] = open + part[i]; }
  return out;
}

function goroutineName(trace, g) {
  return trace.strings[trace.G.label[g] || trace.G.fn[g]] || '(not told)';
}

// The span of a goroutine at a time; -1 if there is none.
function spanAt(trace, g, time) {
  const { S, G } = trace;
  let lo = G.lo[g], hi = G.lo[g + 1];
  while (lo < hi) { const mid = (lo + hi) >> 1; if (S.end[mid] < time) lo = mid + 1; else hi = mid; }
  return lo < G.lo[g + 1] && S.start[lo] <= time ? lo : -1;
}

function duration(ns) {
  for (const [unit, size] of [['s', 1e9], ['ms', 1e6], ['µs', 1e3]]) {
    if (ns >= size) { const v = ns / size; return v.toFixed(v < 10 ? 2 : v < 100 ? 1 : 0) + ' ' + unit; }
  }
  return Math.round(ns) + ' ns';
}
