use std::os::unix::ffi::OsStringExt;

use super::*;

fn with(variables: &[(&str, &str)]) -> Settings {
    settings(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
}

#[track_caller]
fn no_warnings(settings: &Settings) {
    assert_eq!(settings.warnings, [""; 0]);
}

#[test]
fn an_empty_environment_asks_for_nothing() {
    assert_eq!(with(&[]), Settings::default());
    let empty = [("GOMAXPROCS", ""), ("GORT_MAXPROCS", "  "), ("GODEBUG", ""), ("GORT_DEBUG", "")];
    assert_eq!(with(&empty), Settings::default());
    let debug = DebugOptions::default();
    assert!(debug.containermaxprocs && debug.updatemaxprocs && !debug.asyncpreemptoff && !debug.scheddetail);
    assert_eq!(debug.schedtrace, None);
}

#[test]
fn good_numbers_of_ps() {
    for (value, expected) in [("1", 1), ("4", 4), (" 8 ", 8), ("007", 7), ("1024", 1024)] {
        for name in ["GOMAXPROCS", "GORT_MAXPROCS"] {
            let settings = with(&[(name, value)]);
            assert_eq!(settings.max_procs, Some(expected), "{name}={value}");
            no_warnings(&settings);
        }
    }
}

#[test]
fn bad_numbers_of_ps_are_ignored_with_a_warning() {
    for value in ["0", "000", "-1", "-", "abc", "4x", "2.5", "+4", "0x10", "1e3", "٣", "4 4"] {
        for name in ["GOMAXPROCS", "GORT_MAXPROCS"] {
            let settings = with(&[(name, value)]);
            assert_eq!(settings.max_procs, None, "{name}={value}");
            let expected =
                format!("gort: {name}={value:?} is ignored: it must be a whole number from 1 to 1024");
            assert_eq!(settings.warnings, [expected]);
        }
    }
}

#[test]
fn too_many_ps_are_clamped_with_a_warning() {
    for value in ["1025", "100000", "18446744073709551616", "99999999999999999999999999"] {
        let settings = with(&[("GOMAXPROCS", value)]);
        assert_eq!(settings.max_procs, Some(1024), "{value}");
        let expected = format!("gort: GOMAXPROCS={value} is more than gort can use; it runs with 1024");
        assert_eq!(settings.warnings, [expected]);
    }
}

#[test]
fn our_number_of_ps_wins_over_that_of_go() {
    let settings = with(&[("GOMAXPROCS", "2"), ("GORT_MAXPROCS", "3")]);
    assert_eq!(settings.max_procs, Some(3));
    no_warnings(&settings);
    // An overridden value is not checked.
    let settings = with(&[("GOMAXPROCS", "junk"), ("GORT_MAXPROCS", "3")]);
    assert_eq!(settings.max_procs, Some(3));
    no_warnings(&settings);
    // An invalid GORT_MAXPROCS counts as unset, and so does an empty one.
    let settings = with(&[("GOMAXPROCS", "2"), ("GORT_MAXPROCS", "junk")]);
    assert_eq!(settings.max_procs, Some(2));
    assert_eq!(settings.warnings.len(), 1);
    assert!(settings.warnings[0].contains("GORT_MAXPROCS=\"junk\""), "{:?}", settings.warnings);
    let settings = with(&[("GOMAXPROCS", "2"), ("GORT_MAXPROCS", "")]);
    assert_eq!(settings.max_procs, Some(2));
    no_warnings(&settings);
    // If both are invalid, there is a warning about each.
    let settings = with(&[("GOMAXPROCS", "0"), ("GORT_MAXPROCS", "junk")]);
    assert_eq!((settings.max_procs, settings.warnings.len()), (None, 2));
}

#[test]
fn bytes_that_are_not_text_are_a_bad_value() {
    let settings = settings(|name| (name == "GOMAXPROCS").then(|| OsString::from_vec(vec![b'4', 0xff])));
    assert_eq!(settings.max_procs, None);
    assert_eq!(settings.warnings.len(), 1);
}

#[test]
fn every_option_can_be_set_in_both_variables() {
    for name in ["GODEBUG", "GORT_DEBUG"] {
        let list = "schedtrace=1000,scheddetail=1,asyncpreemptoff=1,containermaxprocs=0,updatemaxprocs=0,\
                    deadlock=0,sigquit=0,runtimeframes=1";
        let settings = with(&[(name, list)]);
        let expected = DebugOptions {
            schedtrace: Some(Duration::from_secs(1)),
            scheddetail: true,
            asyncpreemptoff: true,
            containermaxprocs: false,
            updatemaxprocs: false,
            deadlock: false,
            sigquit: false,
            runtimeframes: true,
        };
        assert_eq!(settings.debug, expected);
        no_warnings(&settings);
    }
}

#[test]
fn odd_but_clear_lists_are_understood() {
    for list in [
        " schedtrace=50 , scheddetail=1 ",
        ",,schedtrace = 50,,scheddetail=1,",
        "schedtrace=9,schedtrace=50,scheddetail=2",
    ] {
        let settings = with(&[("GORT_DEBUG", list)]);
        assert_eq!(settings.debug.schedtrace, Some(Duration::from_millis(50)), "{list}");
        assert!(settings.debug.scheddetail, "{list}");
        no_warnings(&settings);
    }
}

#[test]
fn our_options_win_over_those_of_go_key_by_key() {
    let settings = with(&[("GODEBUG", "schedtrace=1000,scheddetail=1"), ("GORT_DEBUG", "schedtrace=0")]);
    assert_eq!(settings.debug.schedtrace, None);
    assert!(settings.debug.scheddetail);
    no_warnings(&settings);
    // An invalid value in GORT_DEBUG leaves the value from GODEBUG in force.
    let settings = with(&[("GODEBUG", "schedtrace=1000"), ("GORT_DEBUG", "schedtrace=often")]);
    assert_eq!(settings.debug.schedtrace, Some(Duration::from_secs(1)));
    assert_eq!(settings.warnings.len(), 1);
}

#[test]
fn unknown_options_are_only_ours_to_warn_about() {
    let settings = with(&[("GODEBUG", "gctrace=1,madvdontneed=1,http2client=0,whatever,scheddetail=1")]);
    assert!(settings.debug.scheddetail);
    no_warnings(&settings);

    let settings = with(&[("GORT_DEBUG", "gctrace=1,scheddetail=1,schedTrace")]);
    assert!(settings.debug.scheddetail);
    let options = "the options are schedtrace, scheddetail, asyncpreemptoff, containermaxprocs, \
         updatemaxprocs, deadlock, sigquit, runtimeframes";
    let expected = ["gctrace", "schedTrace"]
        .map(|key| format!("gort: GORT_DEBUG: there is no option {key:?}; {options}"));
    assert_eq!(settings.warnings, expected);
}

#[test]
fn bad_option_values_are_ignored_with_a_warning() {
    for name in ["GODEBUG", "GORT_DEBUG"] {
        for value in ["", "=", "=abc", "=-1", "=1.5", "=4294967296", "=1s"] {
            let settings = with(&[(name, &format!("schedtrace{value},scheddetail=1"))]);
            assert_eq!(settings.debug.schedtrace, None);
            assert!(settings.debug.scheddetail, "the rest of the list counts");
            let expected = format!(
                "gort: {name}: \"schedtrace{value}\" is ignored: the value must be a whole number, \
                 as in schedtrace=1000"
            );
            assert_eq!(settings.warnings, [expected]);
        }
    }
    let settings = with(&[("GORT_DEBUG", "scheddetail=yes")]);
    assert!(settings.warnings[0].ends_with("as in scheddetail=1"), "{:?}", settings.warnings);
}

#[test]
fn switches_with_one_value() {
    let settings = with(&[("GORT_GUARD", "mprotect"), ("GORT_SYSMON", " eager ")]);
    assert!(settings.guard_by_mprotect && settings.eager_sysmon);
    no_warnings(&settings);
    let settings = with(&[("GORT_GUARD", "yes"), ("GORT_SYSMON", "lazy")]);
    assert!(!settings.guard_by_mprotect && !settings.eager_sysmon);
    assert_eq!(settings.warnings.len(), 2);
    assert!(settings.warnings[0].contains("GORT_GUARD=\"yes\"") && settings.warnings[0].contains("mprotect"));
}

#[test]
fn sizes_of_stacks_have_units() {
    for (value, expected) in [
        ("0", 0),
        ("65536", 65536),
        ("256K", 256 << 10),
        ("64m", 64 << 20),
        ("1G", 1 << 30),
        (" 8M ", 8 << 20),
    ] {
        let settings = with(&[("GORT_STACK_SIZE", value), ("GORT_MAX_STACK", value)]);
        assert_eq!((settings.stack_size, settings.max_stack), (Some(expected), Some(expected)), "{value}");
        no_warnings(&settings);
    }
}

#[test]
fn bad_sizes_of_stacks_are_ignored_with_a_warning() {
    for value in ["2G", "1073741825", "K", "-1", "64MB", "6 4M", "1.5M", "99999999999999999999G", "x"] {
        for name in ["GORT_STACK_SIZE", "GORT_MAX_STACK"] {
            let settings = with(&[(name, value)]);
            assert_eq!((settings.stack_size, settings.max_stack), (None, None), "{name}={value}");
            let expected = format!(
                "gort: {name}={value:?} is ignored: it must be a size of at most 1G, as in 65536, 256K or 64M"
            );
            assert_eq!(settings.warnings, [expected]);
        }
    }
}
