//! Parses the arguments of a peer. It uses no parser crate, because peers measure their own memory and stay
//! small.

/// What a peer was asked to run.
#[derive(Debug, PartialEq, Eq)]
pub struct Args {
    /// Name of the workload.
    pub workload: String,
    /// Number of Ps, or of the threads that correspond to them in this peer.
    pub procs: usize,
    /// The amount of work; each workload defines what it means.
    pub size: Option<u64>,
    /// A way to run the workload other than the peer's usual one, such as gort's `shared`.
    pub variant: Option<String>,
}

impl Args {
    /// Reads the arguments that follow the program's name.
    pub fn parse(words: impl Iterator<Item = String>) -> Result<Args, String> {
        let mut words = words;
        let (mut workload, mut procs, mut size, mut variant) = (None, None, None, None);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--procs" => procs = Some(positive(&word, words.next())?),
                "--size" => size = Some(positive(&word, words.next())?),
                "--variant" => variant = Some(words.next().ok_or("--variant wants a name")?),
                _ if word.starts_with('-') => return Err(format!("unknown option {word}")),
                _ if workload.is_some() => return Err(format!("one workload at a time, not also {word}")),
                _ => workload = Some(word),
            }
        }
        Ok(Args {
            workload: workload.ok_or("which workload?")?,
            procs: procs.ok_or("--procs is missing")? as usize,
            size,
            variant,
        })
    }

    /// The size asked for, or `default`.
    pub fn size(&self, default: u64) -> u64 {
        self.size.unwrap_or(default)
    }

    /// Whether variant `name` was asked for.
    pub fn is(&self, name: &str) -> bool {
        self.variant.as_deref() == Some(name)
    }
}

fn positive(option: &str, value: Option<String>) -> Result<u64, String> {
    let value = value.ok_or_else(|| format!("{option} wants a number"))?;
    match value.parse() {
        Ok(0) | Err(_) => Err(format!("{option} wants a whole number above 0, not {value:?}")),
        Ok(n) => Ok(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, String> {
        Args::parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn all_options_are_read_in_any_order() {
        let args = parse("--size 5 yield --variant shared --procs 2").unwrap();
        assert_eq!(
            args,
            Args { workload: "yield".into(), procs: 2, size: Some(5), variant: Some("shared".into()) }
        );
        assert!(args.is("shared") && !args.is("unmarked"));
        assert_eq!(args.size(9), 5);
    }

    #[test]
    fn size_falls_back_to_the_workloads_own() {
        assert_eq!(parse("yield --procs 1").unwrap().size(9), 9);
    }

    #[test]
    fn nonsense_is_refused_with_the_word_that_caused_it() {
        for (line, word) in [
            ("--procs 1", "which workload"),
            ("yield", "--procs"),
            ("yield --procs 0", "\"0\""),
            ("yield --procs x", "\"x\""),
            ("yield --procs", "--procs"),
            ("yield fib --procs 1", "fib"),
            ("yield --procs 1 --fast", "--fast"),
        ] {
            let why = parse(line).unwrap_err();
            assert!(why.contains(word), "{line}: {why}");
        }
    }
}
