'use strict';
// What the server has told. look/machine.rs and look/history.rs write it: change both together.

const STATES = ['idle', 'searching', 'running', 'syscall'];
const MSTATES = ['running', 'searching', 'syscall', 'preempted', 'idle'];
const KEPT = 1200;  // samples: a minute

// `at` is the sample that is shown while the time stands still; null while the page is live.
const D = { program: '', pid: 0, last: 0, samples: [], facts: [], at: null };

function decodeSample(raw) {
  const ps = raw.p.map(([state, m, g, name, next, nextName, length, queue, steals, stolen, victim, handOffs, ticks], id) =>
    ({ id, state: STATES[state], m, g, name, next, nextName, length, queue, steals, stolen, victim, handOffs, ticks }));
  const ms = raw.m.map(([state, id, g, name, marked, bound]) => ({ state: MSTATES[state], id, g, name, marked, bound }));
  const [running, spinning, blocked, preempted, parked] = raw.ms;
  const busy = ps.filter(p => p.state === 'running').length, queued = ps.reduce((sum, p) => sum + p.length, 0);
  const states = { running: busy, runnable: raw.global + raw.preempted + queued, syscall: blocked };
  states.waiting = Math.max(0, raw.goroutines - states.running - states.runnable - states.syscall);
  return { ...raw, ps, ms, states, threads: { running, spinning, blocked, preempted, parked } };
}

// Takes an answer in. True: something is new.
function take(answer) {
  if (answer.pid !== D.pid || answer.last < D.last) Object.assign(D, { samples: [], facts: [], at: null });
  Object.assign(D, { program: answer.program, pid: answer.pid, version: answer.version, last: answer.last });
  D.samples.push(...answer.samples.map(decodeSample));
  D.facts.push(...answer.facts);
  if (D.samples.length > KEPT) D.samples.splice(0, D.samples.length - KEPT);
  const oldest = D.samples.length ? D.samples[0].t : 0;
  while (D.facts.length > 2 && D.facts[1].t < oldest) D.facts.shift();
  if (D.at && D.at.t < oldest) D.at = D.samples[0];
  return answer.samples.length > 0;
}

const shown = () => D.at || D.samples[D.samples.length - 1];
const shownIndex = () => (D.at ? D.samples.indexOf(D.at) : D.samples.length - 1);

// The samples up to the one that is shown, for at most that long (ms).
function recent(ms) {
  const end = shownIndex(), from = D.samples[end].t - ms;
  let begin = end;
  while (begin > 0 && D.samples[begin - 1].t >= from) begin--;
  return D.samples.slice(begin, end + 1);
}

// The facts up to the time that is shown.
function factsUntil(t) {
  const end = D.facts.findIndex(fact => fact.t > t);
  return end < 0 ? D.facts : D.facts.slice(0, Math.max(end, 1));
}

// What was counted between two histograms: pairs of shortest duration (ns) and count.
function difference(now, before) {
  const old = new Map(before);
  return now.map(([ns, count]) => [ns, count - (old.get(ns) || 0)]).filter(([, count]) => count > 0);
}

function quantile(buckets, q) {
  let left = Math.max(1, Math.ceil(buckets.reduce((sum, [, count]) => sum + count, 0) * q));
  for (const [ns, count] of buckets) { left -= count; if (left <= 0) return ns; }
  return null;
}

function duration(ns) {
  if (ns === null || ns === undefined) return '–';
  for (const [unit, size] of [['h', 3.6e12], ['min', 6e10], ['s', 1e9], ['ms', 1e6], ['µs', 1e3]]) {
    if (ns >= size) { const v = ns / size; return v.toFixed(v < 10 ? 1 : 0) + ' ' + unit; }
  }
  return Math.round(ns) + ' ns';
}

// How long a goroutine has waited: that is known to about a second.
function waited(ns) {
  if (ns === null || ns === undefined || ns >= 6e10) return duration(ns);
  return ns < 1e9 ? '< 1 s' : Math.floor(ns / 1e9) + ' s';
}

const counted = n => Math.round(n).toLocaleString('en').replaceAll(',', '\u202f');
const short = n => (n < 10000 ? counted(n) : n < 1e6 ? (n / 1e3).toFixed(n < 1e5 ? 1 : 0) + ' k' : (n / 1e6).toFixed(2) + ' M');

// The last parts of a path; closures are only marked: "main::{}".
function shortName(name) {
  const plain = name.replaceAll('::{{closure}}', ''), closure = plain === name ? '' : '::{}';
  let path = plain, before;
  do { before = path; path = path.replace(/(\w|::)<[^<>]*>/g, '$1').replace(/^<([^<>]*?)( as [^<>]*)?>/, '$1'); } while (path !== before);
  return path.split('::').filter(Boolean).slice(-2).join('::') + closure;
}

// An element with properties and children.
function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== 'style') element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const $ = id => document.getElementById(id);
function setText(element, text) { if (element.textContent !== String(text)) element.textContent = text; }
function setClass(element, name) { if (element.className !== name) element.className = name; }
