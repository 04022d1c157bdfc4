//! The meaning of events: each function with each outcome, in the notation where it is common.

use linearizability::formats::{Compression, Format, FormatOptions, read};

use super::{gzip, load, operations, zstd};

/// Expects exactly these operations, see [`operations`].
fn means(text: &str, expected: &[&str]) {
    let loaded = load(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(operations(&loaded.table), expected, "{text}");
}

/// Lines of JSON from words `process type f value`.
fn json(lines: &[&str]) -> String {
    let line = |line: &&str| {
        let mut words = line.splitn(4, ' ');
        let mut next = || words.next().unwrap();
        let (process, kind, f) = (next(), next(), next());
        format!("{{\"process\":{process},\"type\":\"{kind}\",\"f\":\"{f}\",\"value\":{}}}\n", next())
    };
    lines.iter().map(line).collect()
}

#[test]
fn reads_and_writes() {
    means(
        &json(&[
            "0 invoke write 5",
            "1 invoke read 99",
            "0 ok write 5",
            "1 ok read 5",
            "1 invoke read null",
            "1 ok read null",
            "0 invoke write null",
            "0 ok write null",
            "0 invoke write \"a\"",
            "1 invoke read null",
            "0 info write 1.5",
            "1 fail read true",
            "2 invoke read null",
            "2 ok read [1,[\"a\",null]]",
            "3 invoke write 7",
        ]),
        &[
            "0 write 5 nil ok 0..2",
            "1 read 5 nil ok 1..3",
            "1 read nil nil ok 4..5",
            "0 write nil nil ok 6..7",
            "0 write \"a\" nil info 8..",
            "1 read ? nil fail 9..10",
            "2 read [1 [\"a\" nil]] nil ok 11..12",
            "3 write 7 nil info 13..",
        ],
    );
}

#[test]
fn compare_and_set_fails_where_the_value_was_another_and_says_nothing_where_something_else_failed() {
    means(
        &json(&[
            "0 invoke cas [0,2]",
            "0 ok cas [0,2]",
            "0 invoke cas [0,3]",
            "0 fail cas [0,3]",
            "0 invoke cas [2,4]",
            "0 fail cas null",
            "0 invoke cas [null,\"x\"]",
            "0 info cas \"timeout\"",
        ]),
        &["0 cas 0 2 ok 0..1", "0 cas 0 3 fail 2..3", "0 cas 2 4 fail 4..5", "0 cas nil \"x\" info 6.."],
    );
    for (error, kept) in [
        ("null", true),
        ("\"value-mismatch\"", true),
        ("\"precondition-failed\"", true),
        ("\":did-not-succeed\"", true),
        ("\"Precondition failed\"", true),
        ("\"connection-refused\"", false),
        ("\"compare-and-set not sent: connection refused\"", false),
        ("\"protocol version mismatch\"", false),
        ("\"no\"", false),
        ("[\"unavailable\",11]", false),
        ("11", false),
    ] {
        let text = format!(
            "{{\"process\":0,\"type\":\"invoke\",\"f\":\"write\",\"value\":1}}\n\
             {{\"process\":1,\"type\":\"invoke\",\"f\":\"cas\",\"value\":[1,2]}}\n\
             {{\"process\":1,\"type\":\"fail\",\"f\":\"cas\",\"value\":[1,2],\"error\":{error}}}\n\
             {{\"process\":0,\"type\":\"ok\",\"f\":\"write\",\"value\":1}}\n"
        );
        let expected = ["0 write 1 nil ok 0..3", "1 cas 1 2 fail 1..2"];
        means(&text, &expected[..1 + usize::from(kept)]);
    }
}

#[test]
fn updates_tell_what_they_read_and_replaced_and_perhaps_only_in_the_end() {
    means(
        &json(&[
            "0 invoke rmw [null,\"a\"]",
            "0 ok rmw [null,\"a\"]",
            "0 invoke rmw null",
            "0 ok rmw [\"a\",\"b\"]",
            "0 invoke rmw [null,null]",
            "0 ok rmw [\"b\",\"c\"]",
            "0 invoke rmw [5,6]",
            "0 info rmw [5,6]",
            "1 invoke rmw null",
            "1 info rmw null",
            "2 invoke rmw [null,9]",
            "2 fail rmw null",
        ]),
        &[
            "0 rmw nil \"a\" ok 0..1",
            "0 rmw \"a\" \"b\" ok 2..3",
            "0 rmw \"b\" \"c\" ok 4..5",
            "0 rmw ? 6 info 6..",
            "1 rmw ? ? info 7..",
            "2 rmw ? 9 fail 8..9",
        ],
    );
}

#[test]
fn locks_have_owners_and_perhaps_tokens() {
    means(
        &json(&[
            "0 invoke acquire null",
            "0 ok acquire 33",
            "0 invoke release null",
            "0 ok release null",
            "1 invoke lock \"mine\"",
            "1 ok lock \"mine\"",
            "1 invoke unlock null",
            "1 ok unlock true",
            "2 invoke acquire 7",
            "2 ok acquire 7",
            "3 invoke acquire null",
            "3 ok acquire {\"client\":\"c\",\"fence\":34}",
            "4 invoke acquire null",
            "4 fail acquire 5",
            "4 invoke acquire null",
            "4 info acquire 5",
        ]),
        &[
            "0 acquire 33 nil ok 0..1",
            "0 release nil nil ok 2..3",
            "1 acquire nil nil ok 4..5",
            "1 release nil nil ok 6..7",
            "2 acquire nil nil ok 8..9",
            "3 acquire 34 nil ok 10..11",
            "4 acquire ? nil fail 12..13",
            "4 acquire ? nil info 14..",
        ],
    );
}

#[test]
fn sets_counters_and_lists() {
    means(
        &json(&[
            "0 invoke add 5",
            "0 ok add 5",
            "0 invoke append \"x\"",
            "0 ok append null",
            "0 invoke add [1,2]",
            "0 fail add [1,2]",
        ]),
        &["0 add 5 nil ok 0..1", "0 append \"x\" nil ok 2..3", "0 add [1 2] nil fail 4..5"],
    );
}

#[test]
fn fields_are_tolerated_in_any_order_spelling_and_company() {
    means(
        "\u{feff}\n\
         { \"f\" : \"write\", \"value\" : \"\\u00e9\", \"node\": [{\"a\": 1e99}], \"type\": \":invoke\", \"process\": 1 }\r\n\
         \t\r\n\
         {\"process\":\"nemesis\",\"type\":\"info\",\"f\":\"start\",\"value\":1.5,\"time\":99}\n\
         {\"process\":\":nemesis\",\"type\":\"info\",\"f\":\":stop\"}\n\
         {\"process\":1,\"type\":\"ok\",\"f\":\":write\",\"value\":\"é\",\"time\":5,\"key\":null,\"index\":null}\n\
         {\"process\":\"w1\",\"type\":\"invoke\",\"f\":\"read\",\"key\":3,\"index\":5}\n\
         {\"process\":\"w1\",\"type\":\"ok\",\"f\":\"read\",\"value\":1,\"index\":7}\n\
         {\"process\":2,\"type\":\"invoke\",\"f\":\"read\",\"key\":\"3\"}",
        &["1 write \"é\" nil ok 0..1", "2147483648 read@3 1 nil ok 2..3", "2 read@3 ? nil info 4.."],
    );
    let named = load(b"{\"process\":\"w1\",\"type\":\"invoke\",\"f\":\"read\"}\n").unwrap();
    assert_eq!(named.process_name(named.table.operations[0].process), "w1");
    assert_eq!(named.process_name(7), "7");
    assert_eq!(named.table.keys, [""]);
}

#[test]
fn edn_by_the_line_or_as_one_vector() {
    let operations = ["0 cas 0 2 ok 0..3", "1 write \"a\\\"b\" nil info 1..", "2 read@x [1 2] nil ok 2..4"];
    let lines = "\
        ; a comment\n\
        {:type :invoke, :f :cas, :value [0 2], :process 0, :time 123, :index 0}\n\
        #jepsen.history.Op{:index 1, :time 130, :type :invoke, :process 1, :f :write, :value \"a\\\"b\"}\n\
        #_{:this is, :not \"there\"}\n\
        {:type :info, :f :kill, :process :nemesis, :value nil, :jepsen.nemesis/targets #{\"n1\"}, :clock ##NaN}\n\
        {:type :invoke, :f :read, :key \"x\", :value nil,\n :process 2,\n :error {:at #inst \"2015-01-01T00:00:00Z\", :x 1.5}}\n\
        {:type :ok, :f :cas, :value (0N 2), :process 0, :time 200}\n\
        {:type :info, :f :write, :value :timed-out, :process 1}\n\
        {:type :ok, :f :read, :value #{1 2}, :process 2}\n";
    means(lines, &operations);
    means(&format!("[{lines}]"), &operations);
    means(&format!("({lines}) ; done"), &operations);
    assert_eq!(load(lines.as_bytes()).unwrap().format, Format::Edn);
    let table = load(lines.as_bytes()).unwrap().table;
    assert_eq!(table.operations.iter().map(|op| op.line).collect::<Vec<_>>(), [2, 3, 6]);
    means("[]", &[]);
}

#[test]
fn key_value_tests_in_edn() {
    means(
        "{:process 0, :type :invoke, :f :append, :key \"k\", :value \"x 0 0 y\"}\n\
         {:process 1, :type :invoke, :f :get, :key \"k\", :value nil}\n\
         {:process 0, :type :ok, :f :append, :key \"k\", :value \"x 0 0 y\"}\n\
         {:process 1, :type :ok, :f :get, :key \"k\", :value \"x 0 0 y\"}\n\
         {:process 1, :type :invoke, :f :put, :key \"k\", :value \"\"}\n",
        &["0 append@k \"x 0 0 y\" nil ok 0..2", "1 read@k \"x 0 0 y\" nil ok 1..3", "1 write@k \"\" nil info 4.."],
    );
}

#[test]
fn independent_tuples_by_their_tag_or_because_the_user_says_so() {
    let tagged = "{:process 0 :type :invoke :f :write :value #jepsen.independent.Tuple[7 5]}\n\
                  {:process 0 :type :ok :f :write :value #jepsen.independent.Tuple{:key 7 :value 5}}\n";
    means(tagged, &["0 write@7 5 nil ok 0..1"]);
    let plain = tagged.replace("#jepsen.independent.Tuple", "").replace("{:key 7 :value 5}", "[7 5]");
    means(&plain, &["0 write [7 5] nil ok 0..1"]);
    let as_log = "0 :invoke :write [7 5]\n0 :ok :write [7 5]\n";
    let as_json = json(&["0 invoke write [7,5]", "0 ok write [7,5]"]);
    for text in [tagged, &plain, as_log, &as_json] {
        let loaded =
            read(text.as_bytes(), "file", &FormatOptions { independent: true, ..FormatOptions::default() }).unwrap();
        assert_eq!(operations(&loaded.table), ["0 write@7 5 nil ok 0..1"], "{text}");
    }
}

#[test]
fn logs_of_jepsen_with_any_prefix() {
    let log = "\
        INFO [2015-06-01 12:00:00,123] jepsen worker 0 - jepsen.core Worker 0 starting\n\
        INFO  jepsen.util - 0\t:invoke\t:cas\t[0 2]\n\
        INFO [2015-06-01 12:00:00,123] jepsen worker 1 - jepsen.util 1\t:invoke\t:write\t\"a b\"\n\
        INFO  jepsen.util - :nemesis\t:info\t:start\tnil\n\
        2024-01-02 12:00:00,123{GMT}\tINFO\t[jepsen worker 2] jepsen.util: 2\t:invoke\t:read\tnil\r\n\
        \n\
        0 :fail :cas :timed-out\n\
        1 :info :write :timed-out\n\
        2 :fail :read nil indeterminate: Read timed out\n\
        3 :invoke :cas [0 2]\n\
        3 :fail :cas [0 2]\n\
        4 :invoke :read";
    means(
        log,
        &["1 write \"a b\" nil info 1..", "2 read ? nil fail 2..4", "3 cas 0 2 fail 5..6", "4 read ? nil info 7.."],
    );
    assert_eq!(load(log.as_bytes()).unwrap().format, Format::Log);
    let lines: Vec<u32> = load(log.as_bytes()).unwrap().table.operations.iter().map(|op| op.line).collect();
    assert_eq!(lines, [3, 5, 10, 12]);
}

#[test]
fn lists_of_two_are_values_where_nothing_says_that_they_are_keys() {
    means(
        &json(&[
            "0 invoke write [7,1]",
            "0 ok write [7,1]",
            "1 invoke read null",
            "1 ok read [7,1]",
            "1 invoke read [7,null]",
            "1 ok read [8,1]",
            "2 invoke cas [7,8]",
            "2 fail cas [7,8]",
            "3 invoke rmw [7,null]",
            "3 ok rmw [7,8]",
            "4 invoke acquire [7,null]",
            "4 ok acquire null",
        ]),
        &[
            "0 write [7 1] nil ok 0..1",
            "1 read [7 1] nil ok 2..3",
            "1 read [8 1] nil ok 4..5",
            "2 cas 7 8 fail 6..7",
            "3 rmw 7 8 ok 8..9",
            "4 acquire nil nil ok 10..11",
        ],
    );
}

#[test]
fn numbers_and_texts_beside_a_lock_are_no_tokens_where_they_are_told_from_them() {
    means(
        &json(&[
            // The completion repeats the acquire's argument, whatever that is.
            "0 invoke acquire 1.5",
            "0 ok acquire 1.5",
            "1 invoke acquire \"17\"",
            "1 ok acquire \"17\"",
            "2 invoke acquire null",
            "2 ok acquire {\"token\":\"c3\",\"fence\":-9223372036854775808}",
            "3 invoke acquire null",
            "3 ok acquire \"a5\"",
            // A failed operation returned nothing.
            "4 invoke acquire null",
            "4 fail acquire 5.0",
        ]),
        &[
            "0 acquire nil nil ok 0..1",
            "1 acquire nil nil ok 2..3",
            "2 acquire -9223372036854775808 nil ok 4..5",
            "3 acquire nil nil ok 6..7",
            "4 acquire ? nil fail 8..9",
        ],
    );
}

#[test]
fn keywords_of_clojure_in_json() {
    let fields = "{\":process\":\":c1\",\":type\":\":invoke\",\":f\":\":read\",\":key\":\"a\",\":value\":null}\n\
                  {\"\\u003aprocess\":\"c1\",\":type\":\"ok\",\":f\":\"read\",\"\\u003akey\":\"a\",\":value\":5}\n";
    means(fields, &["2147483648 read@a 5 nil ok 0..1"]);
}

#[test]
fn logs_may_name_their_processes_and_lines_that_are_skipped_are_counted() {
    let log = "\
        INFO jepsen.core - Everything looks good!\n\
        c1\t:invoke\t:write\t1\n\
        INFO  jepsen.util - :c2\t:invoke\t:read\tnil\n\
        \n\
        INFO [2015] jepsen.core - :nemesis\t:info\t:start\tnil\n\
        n1/c1 :invoke :read nil\n\
        c1\t:ok\t:write\t1\n\
        done\n\
        c2\t:ok\t:read\t1\n";
    means(log, &["2147483648 write 1 nil ok 0..3", "2147483649 read 1 nil ok 1..4", "2147483650 read ? nil info 2.."]);
    let loaded = load(log.as_bytes()).unwrap();
    assert_eq!(loaded.notes, ["2 lines are not operations and were skipped, first line 1"]);
    let names: Vec<_> = loaded.table.operations.iter().map(|op| loaded.process_name(op.process)).collect();
    assert_eq!(names, ["c1", "c2", "n1/c1"]);
    assert_eq!(load(b"0 :invoke :read nil\n").unwrap().notes, [""; 0]);
}

#[test]
fn compressed_files_are_known_by_their_first_bytes() {
    let text = json(&["0 invoke write 5", "0 ok write 5"]);
    let half = text.len() / 2;
    let (first, second) = text.as_bytes().split_at(half);
    let skippable = [&[0x52, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..], &zstd(text.as_bytes())].concat();
    for (bytes, compression) in [
        (text.clone().into_bytes(), Compression::None),
        (gzip(text.as_bytes()), Compression::Gzip),
        // Files of several concatenated parts, as from `cat a.gz b.gz`.
        ([gzip(first), gzip(second)].concat(), Compression::Gzip),
        (zstd(text.as_bytes()), Compression::Zstd),
        ([zstd(first), zstd(second)].concat(), Compression::Zstd),
        (skippable, Compression::Zstd),
    ] {
        let loaded = load(&bytes).unwrap();
        assert_eq!(
            (operations(&loaded.table), loaded.compression),
            (vec!["0 write 5 nil ok 0..1".into()], compression)
        );
    }
}
