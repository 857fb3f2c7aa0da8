//! Questions to the table of goroutines: search, sort, page, group. The server does all of it, and an answer
//! has at most [`MOST_ROWS`] rows and [`MOST_GROUPS`] groups, however many goroutines there are.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::panic::Location;
use std::ptr;
use std::time::{Duration, Instant};

use super::goroutine::{self, Key};
use super::table::{Row, Table};
use crate::debug::http::{Refusal, Request};
use crate::debug::json::Json;

/// The most rows of an answer, and the number unless the request says another one.
const MOST_ROWS: usize = 1000;
const ROWS: usize = 100;
/// The most groups of an answer.
const MOST_GROUPS: usize = 100;
/// How long a text with stacks may take to make.
const TEXT_WITHIN: Duration = Duration::from_secs(2);

/// What a request asks for.
pub(in crate::debug) struct Query {
    /// In lower case; part of the name, the state, the spawn site, or the whole id.
    search: String,
    /// Only this state, spawn site, name.
    state: Option<String>,
    site: Option<String>,
    name: Option<String>,
    /// Only with this label: "key=value".
    label: Option<String>,
    sort: Sort,
    descending: bool,
    offset: usize,
    limit: usize,
    grouped: Option<By>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Id,
    Name,
    State,
    Wait,
    Site,
    /// The share of a core that it has used of late, and all CPU time.
    Cpu,
    Time,
}

/// By what goroutines are grouped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    StateAndSite,
    Name,
    Labels,
}

impl Query {
    pub(in crate::debug) fn of(request: &Request) -> Result<Query, Refusal> {
        let text = |name| request.parameter(name).map(str::to_owned);
        let sort = request.parameter("sort").unwrap_or("id");
        let (descending, key) = sort.strip_prefix('-').map_or((false, sort), |key| (true, key));
        let keys = [
            ("id", Sort::Id),
            ("name", Sort::Name),
            ("state", Sort::State),
            ("wait", Sort::Wait),
            ("site", Sort::Site),
            ("cpu", Sort::Cpu),
            ("time", Sort::Time),
        ];
        let found = keys.iter().find(|(name, _)| *name == key);
        let Some(&(_, sort)) = found else {
            let known: Vec<_> = keys.iter().map(|(name, _)| *name).collect();
            let known = known.join(", ");
            return Err(Refusal::bad_request(format!(
                "sort={key:?}: known are {known}, also with a - before"
            )));
        };
        let grouped = match request.parameter("group") {
            None => None,
            Some("" | "site") => Some(By::StateAndSite),
            Some("name") => Some(By::Name),
            Some("labels") => Some(By::Labels),
            Some(other) => {
                let says = format!("group={other:?}: known are site, name, labels");
                return Err(Refusal::bad_request(says));
            }
        };
        Ok(Query {
            search: request.parameter("q").unwrap_or_default().to_lowercase(),
            state: text("state"),
            site: text("site"),
            name: text("name"),
            label: text("label"),
            sort,
            descending,
            offset: request.number("offset", 0.0, 0.0, 1e12)? as usize,
            limit: request.number("limit", ROWS as f64, 0.0, MOST_ROWS as f64)? as usize,
            grouped,
        })
    }

    /// The rows that match.
    fn matching<'t>(&self, table: &'t Table) -> Vec<&'t Row> {
        // There are few spawn sites, so each is compared once.
        let mut sites: HashMap<usize, (bool, bool)> = HashMap::new();
        let wanted_id = self.search.parse::<u64>().ok();
        let matches = |row: &Row| {
            let (is_site, finds_site) = *sites.entry(address(row.site)).or_insert_with(|| {
                let text = row.site.map_or_else(String::new, Location::to_string);
                let is = self.site.as_ref().is_none_or(|site| *site == text);
                (is, !self.search.is_empty() && text.to_lowercase().contains(&self.search))
            });
            is_site
                && self.state.as_ref().is_none_or(|state| state == row.state())
                && self.name.as_ref().is_none_or(|name| row.name.as_deref() == Some(name))
                && self.label.as_ref().is_none_or(|label| has_label(row, |text| text == label))
                && (self.search.is_empty()
                    || finds_site
                    || wanted_id == Some(row.id)
                    || row.state().to_lowercase().contains(&self.search)
                    || has_label(row, |text| text.to_lowercase().contains(&self.search))
                    || row.name.as_ref().is_some_and(|name| name.to_lowercase().contains(&self.search)))
        };
        let mut matches = matches;
        table.rows.iter().filter(|row| matches(row)).collect()
    }

    fn compare(&self, a: &Row, b: &Row) -> Ordering {
        let order = match self.sort {
            Sort::Id => Ordering::Equal,
            // Rows without a name come last, in either direction.
            Sort::Name => match (&a.name, &b.name) {
                (Some(a), Some(b)) => a.cmp(b),
                (Some(_), None) => return Ordering::Less,
                (None, Some(_)) => return Ordering::Greater,
                (None, None) => Ordering::Equal,
            },
            Sort::State => a.state().cmp(b.state()),
            // The longest wait began first. Rows that do not wait have waited for no time.
            Sort::Wait => begin(b).cmp(&begin(a)),
            Sort::Site => a.site.cmp(&b.site),
            Sort::Cpu => a.share.total_cmp(&b.share).then(a.cpu.cmp(&b.cpu)),
            Sort::Time => a.cpu.cmp(&b.cpu),
        };
        let order = if self.descending { order.reverse() } else { order };
        let by_id = a.id.cmp(&b.id);
        let down = self.descending && self.sort == Sort::Id;
        order.then(if down { by_id.reverse() } else { by_id })
    }

    /// The rows of the page, sorted; only these are sorted.
    fn page<'t>(&self, mut rows: Vec<&'t Row>) -> Vec<&'t Row> {
        let end = self.offset.saturating_add(self.limit).min(rows.len());
        if end < rows.len() {
            rows.select_nth_unstable_by(end, |a, b| self.compare(a, b));
            rows.truncate(end);
        }
        rows.sort_unstable_by(|a, b| self.compare(a, b));
        rows.drain(..self.offset.min(rows.len()));
        rows
    }

    pub(in crate::debug) fn json(&self, table: &Table) -> String {
        let matching = self.matching(table);
        let mut json = Json::new();
        json.object(|json| {
            json.key("total").value(table.len());
            json.key("matching").value(matching.len());
            json.key("states").object(|json| {
                table.states().iter().for_each(|(state, count)| json.key(state).value(count));
            });
            json.key("reasons").object(|json| {
                table.reasons().iter().for_each(|(reason, count)| json.key(reason).value(count));
            });
            if let Some(by) = self.grouped {
                json.key("groups").array(|json| write_groups(&matching, by, table, json));
                return;
            }
            json.key("offset").value(self.offset);
            json.key("rows").array(|json| {
                self.page(matching).iter().for_each(|row| write_row(row, table, json));
            });
        });
        json.finish()
    }

    /// The page as text with stacks, as in a dump.
    pub(in crate::debug) fn text(&self, table: &Table) -> String {
        let (start, matching) = (Instant::now(), self.matching(table));
        let (total, count) = (table.len(), matching.len());
        let mut shown = 0;
        let mut text = String::new();
        for row in self.page(matching) {
            if start.elapsed() > TEXT_WITHIN {
                break;
            }
            if let Some(goroutine) = goroutine::text(row) {
                text.push_str(&goroutine);
                text.push('\n');
                shown += 1;
            }
        }
        let more = "?offset= and ?limit= select others, /debug/pprof/goroutine?debug=2 has all";
        format!("{total} goroutines, {count} match, {shown} are shown: {more}\n\n{text}")
    }
}

/// When the wait of a goroutine began; one that does not wait begins last.
fn begin(row: &Row) -> u64 {
    if row.since == 0 { u64::MAX } else { row.since }
}

fn address(site: Option<&'static Location<'static>>) -> usize {
    site.map_or(0, |site| ptr::from_ref(site) as usize)
}

/// Whether one of its labels, as "key=value", is so.
fn has_label(row: &Row, is: impl Fn(&str) -> bool) -> bool {
    row.labels.pairs().iter().any(|pair| is(&format!("{}={}", pair.key, pair.value)))
}

fn labels(row: &Row) -> String {
    let pairs: Vec<_> =
        row.labels.pairs().iter().map(|pair| format!("{}={}", pair.key, pair.value)).collect();
    pairs.join(", ")
}

fn write_row(row: &Row, table: &Table, json: &mut Json) {
    json.object(|json| {
        json.key("id").value(row.id);
        json.key("name").text(row.name.as_deref());
        json.key("state").string(row.state());
        json.key("waitNs").number(row.waited(table.at));
        json.key("cpu").value(row.share);
        json.key("cpuNs").value(row.cpu);
        json.key("labels").object(|json| {
            row.labels.pairs().iter().for_each(|pair| json.key(&pair.key).string(&pair.value));
        });
        json.key("site").text(row.site.map(Location::to_string));
        json.key("parent").number((row.parent != 0).then_some(row.parent));
        if row.locked {
            json.key("locked").value(true);
        }
    });
}

struct Group<'t> {
    count: usize,
    named: usize,
    oldest: Option<u64>,
    share: f32,
    cpu: u64,
    /// A few of them, of which stacks are taken.
    some: Vec<&'t Row>,
}

/// What the members of a group have in common. The parts that do not count are empty.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct GroupKey {
    place: Key,
    text: Option<String>,
}

impl GroupKey {
    fn of(row: &Row, by: By) -> GroupKey {
        let text = match by {
            By::StateAndSite => return GroupKey { place: (row.state(), address(row.site)), text: None },
            By::Name => row.name.as_deref().unwrap_or_default().to_owned(),
            By::Labels => labels(row),
        };
        GroupKey { place: ("", 0), text: Some(text) }
    }
}

/// Goroutines that have something in common, the largest groups first.
fn write_groups(rows: &[&Row], by: By, table: &Table, json: &mut Json) {
    let mut groups: HashMap<GroupKey, Group<'_>> = HashMap::new();
    for &row in rows {
        let new = || Group { count: 0, named: 0, oldest: None, share: 0.0, cpu: 0, some: Vec::new() };
        let group = groups.entry(GroupKey::of(row, by)).or_insert_with(new);
        group.count += 1;
        group.named += usize::from(row.name.is_some());
        group.oldest = group.oldest.max(row.waited(table.at));
        group.share += row.share;
        group.cpu += row.cpu;
        if group.some.len() < 3 {
            group.some.push(row);
        }
    }
    let mut groups: Vec<(GroupKey, Group<'_>)> = groups.into_iter().collect();
    groups.sort_unstable_by(|(a, x), (b, y)| y.count.cmp(&x.count).then_with(|| a.cmp(b)));
    groups.truncate(MOST_GROUPS);
    let places = groups.iter().filter(|_| by == By::StateAndSite);
    let places: Vec<(Key, Vec<&Row>)> = places.map(|(key, group)| (key.place, group.some.clone())).collect();
    let mut sampled = goroutine::sample(&places).into_iter();
    for (key, group) in &groups {
        let sampled = sampled.next().flatten();
        json.object(|json| {
            if let Some(text) = &key.text {
                json.key(if by == By::Name { "name" } else { "labels" }).string(text);
            } else {
                json.key("state").string(key.place.0);
                json.key("site").text(group.some[0].site.map(Location::to_string));
                json.key("name").text(group.some[0].name.as_deref().filter(|_| group.named > 0));
                json.key("function").text(sampled.as_ref().map(|sampled| &sampled.outer));
                json.key("in").text(sampled.as_ref().map(|sampled| &sampled.inner));
            }
            json.key("count").value(group.count);
            json.key("oldestNs").number(group.oldest);
            json.key("cpu").value(group.share);
            json.key("cpuNs").value(group.cpu);
        });
    }
}
