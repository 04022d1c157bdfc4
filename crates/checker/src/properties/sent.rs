//! The commands of each client in the order of time.

use std::collections::HashMap;

use super::*;

/// The commands that clients sent themselves, without the calls of their scripts.
pub struct SentCommands<'a> {
    commands: &'a [RecordedCommand],
    /// Indices in `commands`.
    by_client: HashMap<&'a str, Vec<usize>>,
}

impl<'a> SentCommands<'a> {
    pub fn new(commands: &'a [RecordedCommand]) -> SentCommands<'a> {
        let mut by_client: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, command) in commands.iter().enumerate().filter(|(_, command)| !command.in_script) {
            if let Some(client) = &command.from {
                by_client.entry(client).or_default().push(place);
            }
        }
        by_client.values_mut().for_each(|places| places.sort_by_key(|place| commands[*place].time));
        SentCommands { commands, by_client }
    }

    /// The commands that a client sent at or after `from` and before `until`, each with its index among all commands.
    pub fn between(
        &self,
        client: &str,
        from: u64,
        until: u64,
    ) -> impl DoubleEndedIterator<Item = (usize, &'a RecordedCommand)> {
        let places = self.by_client.get(client).map_or(&[][..], Vec::as_slice);
        let before = |moment| places.partition_point(|place| self.commands[*place].time < moment);
        let places = places.get(before(from)..before(until)).unwrap_or_default();
        places.iter().map(|place| (*place, &self.commands[*place]))
    }
}
