// The table of goroutines, and the panel with one of them. The server searches, sorts and groups.

const Q = { grouped: true, q: '', state: null, site: null, name: null, label: null, sort: 'id', offset: 0, limit: 50 };
const FILTERS = ['state', 'site', 'name', 'label'];
let answer = null, opened = null, asking = 0;

async function ask(path) {
  const response = await fetch(path, { cache: 'no-store' });
  if (!response.ok) throw Object.assign(new Error((await response.text()).trim()), { status: response.status });
  return response.json();
}

async function refreshTable() {
  const parameters = new URLSearchParams();
  for (const key of ['q', ...FILTERS]) if (Q[key]) parameters.set(key, Q[key]);
  if (Q.grouped) parameters.set('group', '');
  else for (const key of ['sort', 'offset', 'limit']) parameters.set(key, Q[key]);
  const mine = ++asking;
  const found = await ask('/debug/goroutines?' + parameters);
  if (mine === asking) { answer = found; drawTable(); }
}

function refreshSoon() { refreshTable().catch(() => {}); }

function filter(change) {
  Object.assign(Q, change, { offset: 0 });
  if (change.site) Q.grouped = false;
  drawTools();
  refreshSoon();
}

function drawTools() {
  $('groups').setAttribute('aria-pressed', Q.grouped);
  $('each').setAttribute('aria-pressed', !Q.grouped);
  $('filters').replaceChildren(...FILTERS.filter(key => Q[key]).map(key =>
    h('button', { className: 'chip', title: 'Remove this filter', onclick: () => filter({ [key]: null }) }, `${key}: ${Q[key]} ✕`)));
}

const percent = share => (share < 0.0005 ? '–' : (share * 100).toFixed(share < 0.1 ? 1 : 0) + ' %');
const labelText = labels => Object.entries(labels).map(([key, value]) => `${key}=${value}`);
const labelsCell = labels => { const text = labelText(labels).join(', '); return h('td', { title: text }, text || h('span', { className: 'none' }, '–')); };
const statusOf = state => (['running', 'runnable', 'syscall', 'preempted'].includes(state) ? state : 'waiting');
const stateCell = state => h('td', {}, h('span', { className: 'key ' + statusOf(state) }, state));
const siteCell = site => h('td', { className: 'mono', title: site ?? '' }, site ?? '–');

const GROUP_COLUMNS = [['goroutines', 'n', '104px'], ['state', '', '170px'], ['function', '', ''], ['is in', '', ''], ['spawned at', '', ''], ['CPU', 'n', '84px'], ['longest wait', 'n', '110px']];
const ROW_COLUMNS = [['id', 'n', '96px', 'id'], ['name', '', '', 'name'], ['state', '', '190px', 'state'], ['waits', 'n', '92px', 'wait'], ['CPU', 'n', '76px', 'cpu'], ['CPU time', 'n', '92px', 'time'], ['labels', '', ''], ['spawned at', '', '', 'site'], ['by', 'n', '86px']];

const NUMBERS = ['wait', 'cpu', 'time'];  // these are sorted downwards first

function drawHead(columns) {
  const signature = JSON.stringify([columns, Q.sort]);
  if ($('head').dataset.signature === signature) return;
  $('head').dataset.signature = signature;
  $('head').replaceChildren(h('tr', {}, ...columns.map(([name, kind, width, key]) => {
    const cell = h('th', { className: kind, scope: 'col' });
    if (width) cell.style.width = width;
    if (!key) { cell.append(name); return cell; }
    const down = Q.sort === '-' + key, up = Q.sort === key;
    cell.setAttribute('aria-sort', up ? 'ascending' : down ? 'descending' : 'none');
    cell.append(h('button', { onclick: () => { const [first, then] = NUMBERS.includes(key) ? ['-' + key, key] : [key, '-' + key]; Q.sort = Q.sort === first ? then : first; Q.offset = 0; refreshSoon(); } }, name + (up ? ' ↑' : down ? ' ↓' : '')));
    return cell;
  })));
}

function drawTable() {
  const all = answer.matching === answer.total;
  setText($('matching'), all ? counted(answer.total) : `${counted(answer.matching)} of ${counted(answer.total)}`);
  const lines = answer.groups ? answer.groups.map(groupLine) : answer.rows.map(rowLine);
  drawHead(answer.groups ? GROUP_COLUMNS : ROW_COLUMNS);
  const focused = [...$('rows').children].indexOf(document.activeElement);
  $('rows').replaceChildren(...lines);
  if (focused >= 0) $('rows').children[Math.min(focused, lines.length - 1)]?.focus();
  const pager = [];
  if (answer.rows) {
    const { offset, limit } = Q, end = offset + answer.rows.length;
    const page = (to, name, on) => h('button', { disabled: !on, onclick: () => { Q.offset = to; refreshSoon(); } }, name);
    if (offset || end < answer.matching) pager.push(page(Math.max(0, offset - limit), '‹ Previous', offset > 0), page(offset + limit, 'Next ›', end < answer.matching));
    pager.push(answer.rows.length ? `${counted(offset + 1)} to ${counted(end)} of ${counted(answer.matching)}` : 'no goroutine matches');
  } else if (!answer.groups.length) pager.push('no goroutine matches');
  $('pager').replaceChildren(...pager);
}

function line(open, ...cells) {
  return h('tr', { tabIndex: 0, onclick: open, onkeydown: event => {
    const step = { ArrowDown: 'nextElementSibling', ArrowUp: 'previousElementSibling' }[event.key];
    if (step) { event.preventDefault(); event.currentTarget[step]?.focus(); }
    if (event.key === 'Enter') open();
  } }, ...cells);
}

function groupLine(group) {
  const text = name => h('td', { title: name ?? '' }, name ? shortName(name) : '–');
  return line(() => { Object.assign(Q, { state: group.state, site: group.site, grouped: false, sort: '-wait', offset: 0 }); drawTools(); refreshSoon(); },
    h('td', { className: 'n' }, counted(group.count)), stateCell(group.state), text(group.function), text(group.in), siteCell(group.site), h('td', { className: 'n' }, percent(group.cpu)), h('td', { className: 'n' }, waited(group.oldestNs)));
}

function rowLine(row) {
  const made = line(() => openGoroutine(row.id),
    h('td', { className: 'n' }, String(row.id)), h('td', { title: row.name ?? '' }, row.name ?? h('span', { className: 'none' }, '–')), stateCell(row.state),
    h('td', { className: 'n' }, waited(row.waitNs)), h('td', { className: 'n' }, percent(row.cpu)), h('td', { className: 'n' }, row.cpuNs ? duration(row.cpuNs) : '–'), labelsCell(row.labels), siteCell(row.site), h('td', { className: 'n' }, row.parent ? String(row.parent) : '–'));
  made.classList.toggle('chosen', opened?.id === row.id);
  return made;
}

async function openGoroutine(id) {
  opened = { id };
  $('details').hidden = false;
  await refreshDetails();
  $('details').focus({ preventScroll: true });
}

function closeDetails() {
  opened = null;
  $('details').hidden = true;
  history.replaceState(null, '', location.pathname);
}

async function refreshDetails() {
  const id = opened?.id;
  if (id === undefined) return;
  history.replaceState(null, '', '#' + id);
  try {
    const one = await ask('/debug/goroutines?id=' + id);
    if (opened?.id === id) drawDetails(one);
  } catch (error) {
    if (opened?.id === id) drawEnded(id, error);
  }
}

const detailsHead = title => h('div', { className: 'top' }, h('h2', {}, title), h('span', { className: 'grow' }), h('button', { title: 'Close (Esc)', onclick: closeDetails }, 'Close'));

function drawEnded(id, error) {
  if (error.status === 404 && $('details').dataset.id === String(id)) {
    setText($('details').querySelector('h2'), `Goroutine ${id} has ended`);
    return;
  }
  $('details').replaceChildren(detailsHead(`Goroutine ${id}`), h('p', { className: 'none' }, error.message || 'no answer'));
}

// A goroutine that another one has to do with.
function other(g) {
  const name = `goroutine ${g.id}${g.name ? ' ' + g.name : ''}`;
  return g.lives ? h('button', { className: 'link', onclick: () => openGoroutine(g.id) }, name) : name + ' (has ended)';
}

function list(items) {
  return items.flatMap((item, i) => (i ? [', ', item] : [item]));
}

const WAITS = {
  'chan receive': 'until somebody sends to the channel, or it is disconnected', 'chan send': 'until somebody receives from the channel',
  'select': 'until one of its cases is ready', 'sleep': 'until its time has come', 'IO wait (read)': 'until there is something to read',
  'IO wait (write)': 'until the other side has read', 'sync.WaitGroup.Wait': 'until the others are done', 'sync.Cond.Wait': 'until it is notified',
  'join': 'until the other one ends', 'scope wait': 'until the goroutines of its scope have ended',
};

function waitsFor(one) {
  const { holders, heldBy, joins, object } = one.waitsFor, parts = [];
  if (joins) parts.push('the end of ', other(joins));
  if (heldBy) parts.push('a lock that ', ...(holders.length ? list(holders.map(other)) : ['a thread outside of gort']), holders.length < heldBy && holders.length ? ` and ${heldBy - holders.length} more` : '', heldBy > 1 ? ' hold' : ' holds');
  if (!parts.length && WAITS[one.state]) parts.push(WAITS[one.state]);
  if (object) parts.push(h('span', { className: 'none mono' }, `${parts.length ? ', ' : ''}at ${object}`));
  return parts;
}

function drawDetails(one) {
  const line = (name, ...value) => (value.length ? h('tr', {}, h('td', {}, name), h('td', {}, ...value)) : null);
  const facts = [
    line('state', h('span', { className: 'key ' + statusOf(one.state) }, one.state), one.locked ? ', bound to its thread' : ''),
    one.waitNs !== null ? line('since', waited(one.waitNs)) : null,
    line('waits for', ...waitsFor(one)),
    one.cpuNs ? line('CPU', `${percent(one.cpu)} of a core, ${duration(one.cpuNs)} in all`) : null,
    Object.keys(one.labels).length ? line('labels', ...labelText(one.labels).map(text => h('button', { className: 'chip', onclick: () => filter({ label: text, grouped: false }) }, text))) : null,
    line('spawned at', h('span', { className: 'mono' }, one.site ?? '–')),
    line('spawned by', one.parent ? other(one.parent) : 'a thread outside of gort'),
    one.children.length ? line('has spawned', ...list(one.children.map(other)), one.children.length === 20 ? ', …' : '') : null,
  ];
  const frames = one.stack.map(frame => h('li', { className: frame.library ? 'library' : '' }, h('span', { className: 'mono' }, frame.function), h('small', { className: 'mono', title: frame.file }, frame.file ? `${frame.file.split('/').slice(-3).join('/')}:${frame.line}` : '')));
  const none = h('li', { className: 'none' }, one.state === 'running' ? 'it did not stop to be asked' : 'not known just now');
  const scroll = $('details').scrollTop;
  $('details').dataset.id = one.id;
  $('details').replaceChildren(detailsHead(`Goroutine ${one.id}${one.name ? ' ' + one.name : ''}`), h('table', {}, h('tbody', {}, ...facts.filter(Boolean))),
    h('h3', {}, 'Stack'), h('ol', {}, ...(frames.length ? frames : [none])));
  $('details').scrollTop = scroll;
}
