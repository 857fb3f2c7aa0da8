// Asks the server, lets the time stand still, and listens to the keyboard.

const EVERY = 250;  // ms
let before = null, drawing = false, lastTable = 0, lastDetails = 0;
const busy = { table: false, details: false };

function draw() {
  if (drawing || !D.samples.length) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    const sample = shown(), index = shownIndex();
    // While time stands still, what happened since the sample before; else since the last picture.
    const since = D.at ? D.samples[index - 1] : before && before.t < sample.t ? before : D.samples[index - 1];
    document.title = `${D.program} · gort`;
    setText($('program'), D.program);
    setText($('facts'), `pid ${D.pid} · gort ${D.version}`);
    drawMachine(sample, since && since.ps.length === sample.ps.length ? since : null);
    drawCharts(sample.t);
    drawTime(sample, index);
    before = sample;
  });
}

function drawTime(sample, index) {
  const newest = D.samples[D.samples.length - 1], ago = (newest.t - sample.t) / 1000;
  setText($('live'), D.at ? (ago < 0.05 ? 'paused' : `${ago.toFixed(2)} s ago`) : 'live');
  setClass($('live'), D.at ? 'paused' : 'on');
  setText($('pause'), D.at ? 'Go on' : 'Pause');
  $('pause').setAttribute('aria-pressed', Boolean(D.at));
  $('time').max = D.samples.length - 1;
  if (!D.at || document.activeElement !== $('time')) $('time').value = index;
  $('back').disabled = index <= 0;
  $('forth').disabled = !D.at || index >= D.samples.length - 1;
}

function pause(yes = !D.at) {
  D.at = yes ? shown() : null;
  draw();
  if (!yes) refreshSoon();
}

function step(by) {
  if (!D.samples.length) return;
  const index = Math.max(0, Math.min(D.samples.length - 1, shownIndex() + by));
  D.at = D.samples[index];
  draw();
}

// The table and the panel, each if its last answer has come. The server may take seconds to look up the first
// names of functions, and nothing else waits for that.
function refreshRest(now) {
  if (now - lastTable > 1000 && !busy.table) {
    [lastTable, busy.table] = [now, true];
    refreshTable().catch(() => {}).finally(() => { busy.table = false; });
  }
  if (opened && now - lastDetails > 2000 && !busy.details) {
    [lastDetails, busy.details] = [now, true];
    refreshDetails().finally(() => { busy.details = false; });
  }
}

async function poll() {
  if (!document.hidden) {
    try {
      if (take(await ask('/debug/live?since=' + D.last))) draw();
      $('lost').hidden = true;
      const now = performance.now();
      if (!D.at) refreshRest(now);
    } catch (error) {
      setClass($('live'), '');
      setText($('live'), 'no answer');
      setText($('lost'), error.status ? error.message : 'The program does not answer: it has ended, or the connection is lost. What is shown is what it said last.');
      $('lost').hidden = false;
    }
  }
  setTimeout(poll, EVERY);
}

function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  C = null;
  draw();
}

function listen() {
  $('pause').onclick = () => pause();
  $('back').onclick = () => step(-1);
  $('forth').onclick = () => step(1);
  $('time').oninput = () => { D.at = D.samples[+$('time').value] || null; draw(); };
  const isDark = () => document.documentElement.dataset.theme === 'dark';
  $('theme').onclick = () => setTheme(!isDark());
  const system = matchMedia('(prefers-color-scheme: dark)');
  system.addEventListener('change', () => setTheme(system.matches));
  setTheme(system.matches);
  $('keys').onclick = () => $('help').showModal();
  $('groups').onclick = () => filter({ grouped: true, site: null });
  $('each').onclick = () => filter({ grouped: false });
  let typing;
  $('search').oninput = () => { clearTimeout(typing); typing = setTimeout(() => filter({ q: $('search').value.trim() }), 150); };
  new ResizeObserver(draw).observe(document.body);
  addEventListener('keydown', onKey);
  addEventListener('hashchange', openFromHash);
  openFromHash();
}

function openFromHash() {
  const id = Number(location.hash.slice(1));
  if (id && opened?.id !== id) openGoroutine(id);
}

function onKey(event) {
  const typing = event.target === $('search'), time = event.target === $('time');
  if (event.ctrlKey || event.metaKey || event.altKey || $('help').open) return;
  if (event.key === 'Escape') {
    if (opened) closeDetails();
    else { $('search').value = ''; filter({ q: '', state: null, site: null, name: null, label: null }); }
    $('search').blur();
  } else if (typing) return;
  else if (event.key === ' ' && event.target.tagName !== 'BUTTON') pause();
  else if (event.key === 'ArrowLeft' && !time) step(event.shiftKey ? -10 : -1);
  else if (event.key === 'ArrowRight' && !time) step(event.shiftKey ? 10 : 1);
  else if (event.key === '/') $('search').focus();
  else if (event.key === 'g') filter({ grouped: !Q.grouped, site: Q.grouped ? Q.site : null });
  else if (event.key === 't') $('theme').click();
  else if (event.key === '?') $('help').showModal();
  else return;
  event.preventDefault();
}

listen();
poll();
