//! Writes JSON. There is nothing to read, and the structures are few and fixed, so this is smaller than a
//! library for it, and allocates one string.

use std::fmt::{Display, Write};

/// JSON that is being written. Commas are written as they are needed.
pub(super) struct Json {
    text: String,
    needs_comma: bool,
}

impl Json {
    pub(super) fn new() -> Json {
        Json { text: String::with_capacity(1 << 10), needs_comma: false }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    fn begin_value(&mut self) {
        if self.needs_comma {
            self.text.push(',');
        }
        self.needs_comma = true;
    }

    fn nested(&mut self, begin: char, end: char, f: impl FnOnce(&mut Json)) {
        self.begin_value();
        self.text.push(begin);
        self.needs_comma = false;
        f(self);
        self.text.push(end);
        self.needs_comma = true;
    }

    pub(super) fn object(&mut self, f: impl FnOnce(&mut Json)) {
        self.nested('{', '}', f);
    }

    pub(super) fn array(&mut self, f: impl FnOnce(&mut Json)) {
        self.nested('[', ']', f);
    }

    /// The name of the next value of an object.
    pub(super) fn key(&mut self, key: &str) -> &mut Json {
        self.string(key);
        self.text.push(':');
        self.needs_comma = false;
        self
    }

    pub(super) fn string(&mut self, value: &str) {
        self.begin_value();
        self.text.push('"');
        for c in value.chars() {
            // Writing to a String does not fail, here and below.
            let _ = match c {
                '"' | '\\' => write!(self.text, "\\{c}"),
                '\n' => self.text.write_str("\\n"),
                // The line separators are legal in JSON, but not in old JavaScript.
                c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                    write!(self.text, "\\u{:04x}", u32::from(c))
                }
                c => self.text.write_char(c),
            };
        }
        self.text.push('"');
    }

    /// As a string, or `null`.
    pub(super) fn text(&mut self, value: Option<impl AsRef<str>>) {
        match value {
            Some(value) => self.string(value.as_ref()),
            None => self.raw("null"),
        }
    }

    /// A number, `true` or `false`.
    pub(super) fn value(&mut self, value: impl Display) {
        self.begin_value();
        let _ = write!(self.text, "{value}");
    }

    /// A number, or `null`.
    pub(super) fn number(&mut self, value: Option<u64>) {
        match value {
            Some(value) => self.value(value),
            None => self.raw("null"),
        }
    }

    /// JSON that was written before.
    pub(super) fn raw(&mut self, json: &str) {
        self.begin_value();
        self.text.push_str(json);
    }
}

#[cfg(test)]
mod tests {
    use super::Json;

    #[test]
    fn commas_are_where_they_belong_and_strings_are_escaped() {
        let mut json = Json::new();
        json.object(|json| {
            json.key("a").array(|json| {
                json.value(1);
                json.array(|_| {});
                json.object(|json| json.key("b").number(None));
                json.raw("[2]");
            });
            json.key("c\"\\").string("line\nbell\u{7} é \u{2028}");
            json.key("d").text(None::<&str>);
            json.key("e").value(true);
        });
        let wanted = r#"{"a":[1,[],{"b":null},[2]],"c\"\\":"line\nbell\u0007 é \u2028","d":null,"e":true}"#;
        assert_eq!(json.finish(), wanted);
    }
}
