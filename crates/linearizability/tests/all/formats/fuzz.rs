//! For any file content, the reader finishes without a panic and returns a result or an error.

use std::io::Read;

use linearizability::formats::{FormatOptions, read};
use proptest::prelude::*;

use super::{gzip, zstd};

const SAMPLES: [&str; 5] = [
    "{\"index\":0,\"time\":1,\"process\":0,\"type\":\"invoke\",\"f\":\"cas\",\"value\":[null,\"a\\u00e9\"],\"key\":\"k\"}\n\
     {\"index\":1,\"time\":2,\"process\":0,\"type\":\"fail\",\"f\":\"cas\",\"value\":[null,\"a\\u00e9\"],\"error\":\"x\"}\n",
    "[{:process 0, :type :invoke, :f :write, :value \"a\\n\"} ; x\n\
     #jepsen.history.Op{:process 0 :type :ok :f :write :value \\a #_ [x {:y 1}]}\n\
     {:process :nemesis, :x #{1 -2N 1.5 ##NaN} :y (nil true)}\n\
     {:process 1 :type :invoke :f :rmw :value [nil 12]}]",
    "INFO [2015] jepsen.util - 0\t:invoke\t:write\t1\nnothing\n0 :info :write :timed-out\n:nemesis :info :start \"x\"\n",
    "{\"index\":0,\"time\":0,\"type\":\"run\"}\n{\"index\":1,\"time\":5,\"type\":\"phase\",\"process\":0,\"value\":\"x\"}\n\
     {\"index\":2,\"time\":6,\"type\":\"invoke\",\"process\":0,\"f\":\"rmw\",\"key\":\"k0\",\"value\":[null,\"c0:1\"]}\n",
    "{\"process\":0,\"type\":\"invoke\",\"f\":\"acquire\",\"value\":null}\n\
     {\"process\":0,\"type\":\"ok\",\"f\":\"acquire\",\"value\":{\"fence\":12}}\n",
];

/// Returns its bytes one by one, as a slow pipe may.
struct Slowly<'a>(&'a [u8]);

impl Read for Slowly<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(&mut buffer[..1.min(self.0.len())])
    }
}

fn survives(bytes: &[u8]) {
    for independent in [false, true] {
        let options = FormatOptions { independent, ..FormatOptions::default() };
        let whole = read(bytes, "file", &options);
        if let Err(error) = &whole {
            assert!(error.to_string().starts_with("file"), "{error}");
        }
        // The size of the pieces makes no difference.
        let slowly = read(Slowly(bytes), "file", &options);
        assert_eq!(
            whole.map(|loaded| loaded.table).map_err(|error| error.to_string()),
            slowly.map(|loaded| loaded.table).map_err(|error| error.to_string())
        );
    }
}

#[test]
fn a_file_that_is_cut_off_anywhere() {
    for sample in SAMPLES {
        let sample = sample.as_bytes();
        for bytes in [sample.to_vec(), gzip(sample), zstd(sample)] {
            for cut in 0..=bytes.len() {
                survives(&bytes[..cut]);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn bytes_of_any_kind(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        survives(&bytes);
    }

    #[test]
    fn bytes_behind_the_magic_of_a_compression(
        magic in prop::sample::select(vec![&[0x1f, 0x8b, 8, 0][..], &[0x28, 0xb5, 0x2f, 0xfd], &[0x50, 0x2a, 0x4d, 0x18]]),
        bytes in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        survives(&[magic, &bytes].concat());
    }

    #[test]
    fn text_out_of_the_pieces_of_histories(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", "(", ")", "#{", "#_", "#x ", "##NaN ", "\"", "\\", "\\u", "d83d", ";", "\n", " ", ",", ":",
            ":process ", ":type ", ":invoke ", ":ok ", ":f ", ":read ", ":value ", "\"process\":", "\"type\":", "\"invoke\"",
            "\"f\":", "\"read\"", "\"value\":", "nil ", "null", "true", "0", "12N ", "-1", "1.5", "é", "\u{0}", "\r",
        ]), 0..60),
    ) {
        survives(pieces.concat().as_bytes());
    }

    #[test]
    fn samples_with_changes(
        sample in prop::sample::select(SAMPLES.to_vec()),
        packed in 0..4_u8,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..6),
    ) {
        let mut bytes = match packed {
            0 => gzip(sample.as_bytes()),
            1 => zstd(sample.as_bytes()),
            _ => sample.as_bytes().to_vec(),
        };
        for (place, byte, change) in changes {
            let place = place.index(bytes.len().max(1));
            match change {
                _ if bytes.is_empty() => {}
                0 => bytes[place] = byte,
                1 => bytes.insert(place, byte),
                _ => drop(bytes.remove(place)),
            }
        }
        survives(&bytes);
    }
}
