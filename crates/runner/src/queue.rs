//! Decides which run each lane makes next. Pure.
//!
//! Runs that can share a cluster form a group. One lane takes the whole group, because only one process can reuse a cluster. If
//! no group is left, a lane takes half of another lane's remaining runs. So a cluster that was kept for a lane's next run may
//! find that run gone. Then it is removed.

use std::collections::VecDeque;

use suite::plan::PlannedCell;

#[derive(Clone, Debug)]
pub(super) struct DueRun<'a> {
    pub cell: &'a PlannedCell,
    /// Counted from 1.
    pub run: u32,
    pub seed: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ClusterNeed {
    pub shared: bool,
    /// True if it needs a subnet of which there is only one. Then only one such cluster can exist at a time.
    pub only_one: bool,
}

/// Runs that share a cluster, one run at a time.
struct RunGroup<'a> {
    need: ClusterNeed,
    runs: VecDeque<DueRun<'a>>,
}

/// The remaining runs. Lanes are numbered from 0.
pub(super) struct Queue<'a> {
    /// The groups that no lane has taken yet, in order.
    groups: VecDeque<RunGroup<'a>>,
    /// The rest of the group that each lane has taken. Empty while its last run is being made.
    taken: Vec<Option<RunGroup<'a>>>,
}

impl<'a> Queue<'a> {
    /// A queue of these runs, each with the number of its cluster. First come the first runs of all cells, then the second
    /// ones, and so on. Within these, runs that can share a cluster are together.
    pub fn new(mut due: Vec<(usize, DueRun<'a>)>, needs: &[ClusterNeed]) -> Queue<'a> {
        due.sort_by_key(|(cluster, due)| (due.run, *cluster));
        let mut groups: VecDeque<RunGroup<'a>> = VecDeque::new();
        let mut last = None;
        for (cluster, due) in due {
            let need = needs.get(cluster).copied().unwrap_or(ClusterNeed { shared: false, only_one: true });
            let place = (due.run, cluster);
            match groups.back_mut() {
                Some(group) if need.shared && last == Some(place) => group.runs.push_back(due),
                _ => groups.push_back(RunGroup { need, runs: VecDeque::from([due]) }),
            }
            last = Some(place);
        }
        Queue { groups, taken: Vec::new() }
    }

    /// The number of clusters if no group is divided.
    pub fn clusters(&self) -> usize {
        self.groups.len()
    }

    /// The runs that no lane has taken yet.
    pub fn all(&self) -> impl Iterator<Item = &DueRun<'a>> {
        self.groups.iter().flat_map(|group| &group.runs)
    }

    /// The next run of a lane, and true if another one follows on its cluster. None if there is nothing for the lane to do now.
    pub fn next(&mut self, lane: usize) -> Option<(DueRun<'a>, bool)> {
        if self.taken.len() <= lane {
            self.taken.resize_with(lane + 1, || None);
        }
        if self.taken[lane].as_ref().is_none_or(|group| group.runs.is_empty()) {
            self.taken[lane] = None;
            self.taken[lane] = Some(self.more()?);
        }
        let group = self.taken[lane].as_mut()?;
        let due = group.runs.pop_front()?;
        Some((due, !group.runs.is_empty()))
    }

    /// Releases a lane's remaining runs for other lanes. Must be called when the lane's cluster is removed.
    pub fn give_back(&mut self, lane: usize) {
        if let Some(group) = self.taken.get_mut(lane).and_then(Option::take).filter(|group| !group.runs.is_empty()) {
            self.groups.push_front(group);
        }
    }

    /// A group for a lane that has none. Groups of the earliest unfinished round come first, so that all first runs come before
    /// the second ones.
    fn more(&mut self) -> Option<RunGroup<'a>> {
        let only_one = self.taken.iter().flatten().any(|group| group.need.only_one);
        let free = self.groups.iter().position(|group| !(only_one && group.need.only_one));
        let longest = (0..self.taken.len()).filter_map(|lane| {
            let group = self.taken[lane].as_ref().filter(|group| group.runs.len() > 1 && !group.need.only_one)?;
            Some((lane, group.round(), group.runs.len()))
        });
        let longest = longest.min_by_key(|(lane, round, length)| (*round, usize::MAX - length, *lane));
        match (free, longest) {
            (Some(free), Some((_, round, _))) if self.groups[free].round() <= round => self.groups.remove(free),
            (_, Some((lane, _, _))) => self.taken[lane].as_mut().map(RunGroup::half),
            (Some(free), None) => self.groups.remove(free),
            (None, None) => self.last_run(),
        }
    }

    /// The only remaining run of another lane. If nothing else is left, a new cluster costs less than waiting for that lane.
    fn last_run(&mut self) -> Option<RunGroup<'a>> {
        let left = |group: &&mut RunGroup| !group.runs.is_empty() && !group.need.only_one;
        let group = self.taken.iter_mut().flatten().find(left)?;
        Some(RunGroup { need: group.need, runs: std::mem::take(&mut group.runs) })
    }
}

impl<'a> RunGroup<'a> {
    /// The number that these runs have in their cells.
    fn round(&self) -> u32 {
        self.runs.front().map_or(u32::MAX, |due| due.run)
    }

    /// Takes the second half off. The next run stays, because a cluster may be kept for it.
    fn half(&mut self) -> RunGroup<'a> {
        let kept = self.runs.len().div_ceil(2);
        RunGroup { need: self.need, runs: self.runs.split_off(kept) }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use model::scenario::Options;

    fn cell(name: &str) -> PlannedCell {
        PlannedCell {
            name: name.to_string(),
            place: 0,
            workload: String::new(),
            nemesis: String::new(),
            with: String::new(),
            scripted: false,
            expected: None,
            found: None,
            command: None,
            scenario: Options::default().scenario("redlock", "pause", 1, Path::new("")).unwrap(),
            seeds: Vec::new(),
            planned_ms: 0,
        }
    }

    const SHARED: ClusterNeed = ClusterNeed { shared: true, only_one: false };
    const OWN: ClusterNeed = ClusterNeed { shared: false, only_one: false };

    /// Two runs of each cell. Every second cell needs the same cluster.
    fn queue<'a>(cells: &'a [PlannedCell], needs: [ClusterNeed; 2]) -> Queue<'a> {
        let runs = cells.iter().enumerate().flat_map(|(place, cell)| [1, 2].map(|run| (place % 2, cell, run)));
        Queue::new(runs.map(|(number, cell, run)| (number, DueRun { cell, run, seed: 0 })).collect(), &needs)
    }

    /// A lane's next run, with a plus if another one follows on its cluster.
    fn next(queue: &mut Queue, lane: usize) -> String {
        let word = |(due, kept): (DueRun, bool)| format!("{}{}{}", due.cell.name, due.run, if kept { "+" } else { "" });
        queue.next(lane).map_or("-".to_string(), word)
    }

    fn all(queue: &mut Queue, lanes: &[usize]) -> String {
        lanes.iter().map(|lane| next(queue, *lane)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn runs_that_can_share_a_cluster_follow_each_other_and_first_runs_go_before_second_ones() {
        let cells = ["a", "b", "c", "d"].map(cell);
        // a and c need one cluster, b and d another.
        let told = |needs| all(&mut queue(&cells, needs), &[0; 9]);
        assert_eq!(told([SHARED, SHARED]), "a1+ c1 b1+ d1 a2+ c2 b2+ d2 -");
        assert_eq!(told([OWN, SHARED]), "a1 c1 b1+ d1 a2 c2 b2+ d2 -");
        assert_eq!(told([OWN, OWN]), "a1 c1 b1 d1 a2 c2 b2 d2 -");
        assert_eq!(all(&mut Queue::new(Vec::new(), &[]), &[0]), "-");
        assert_eq!(queue(&cells, [SHARED, OWN]).clusters(), 6);
    }

    #[test]
    fn lanes_take_whole_groups_and_then_half_of_what_another_one_has_left() {
        let cells = ["a", "b", "c", "d", "e", "f", "g", "h"].map(cell);
        let mut runs = queue(&cells, [SHARED, SHARED]);
        assert_eq!(all(&mut runs, &[0, 1, 0, 1]), "a1+ b1+ c1+ d1+");
        // Half of e, g and of f, h; the other lanes keep the other half.
        assert_eq!(all(&mut runs, &[2, 3, 0, 1]), "g1 h1 e1 f1");
        assert_eq!(all(&mut runs, &[2, 3, 0]), "a2+ b2+ g2");
        assert_eq!(all(&mut runs, &[3, 3, 3, 2, 2, 2, 2, 3]), "d2+ f2+ h2 c2+ e2 - - -");
    }

    #[test]
    fn first_runs_go_before_second_ones_also_where_a_cluster_more_is_needed_for_that() {
        let cells = ["a", "b", "c", "d", "e"].map(cell);
        let mut runs = queue(&cells, [SHARED, OWN]);
        assert_eq!(all(&mut runs, &[0, 1, 1, 1]), "a1+ b1 d1 e1");
        assert_eq!(all(&mut runs, &[1, 0, 0, 0]), "a2+ c1 b2 d2");
    }

    #[test]
    fn the_last_run_of_a_group_is_for_whoever_has_nothing_else_to_do() {
        let cells = ["a", "b", "c", "d"].map(cell);
        let mut runs = queue(&cells, [SHARED, OWN]);
        assert_eq!(all(&mut runs, &[0, 1, 1]), "a1+ b1 d1");
        assert_eq!(all(&mut runs, &[1, 1, 1, 1, 0]), "a2+ c2 b2 d2 c1");
        let mut runs = queue(&cells[..1], [SHARED, OWN]);
        assert_eq!(all(&mut runs, &[0, 1, 0]), "a1 a2 -");
        let mut runs = queue(&cells[..3], [SHARED, OWN]);
        assert_eq!(all(&mut runs, &[0, 1, 1, 1, 2, 0, 1]), "a1+ b1 a2+ c2 b2 c1 -");
        let mut runs = Queue::new(vec![(0, due(&cells[0])), (0, due(&cells[1]))], &[SHARED]);
        assert_eq!(all(&mut runs, &[0, 1, 0, 1]), "a1+ b1 - -");
    }

    fn due(cell: &PlannedCell) -> DueRun<'_> {
        DueRun { cell, run: 1, seed: 0 }
    }

    #[test]
    fn what_a_lane_gives_back_is_made_by_others() {
        let cells = ["a", "b", "c", "d"].map(cell);
        let mut runs = queue(&cells, [SHARED, SHARED]);
        assert_eq!(all(&mut runs, &[0, 1]), "a1+ b1+");
        runs.give_back(1);
        runs.give_back(7);
        assert_eq!(all(&mut runs, &[0, 0, 0, 0, 0, 0, 0]), "c1 d1 a2+ c2 b2+ d2 -");
    }

    #[test]
    fn there_is_one_cluster_at_a_time_where_there_is_one_subnet() {
        let cells = ["a", "b", "c", "d"].map(cell);
        let only_one = ClusterNeed { only_one: true, ..SHARED };
        let mut runs = queue(&cells, [only_one, SHARED]);
        assert_eq!(all(&mut runs, &[0, 1, 1]), "a1+ b1+ d1");
        // The second runs of a and c have to wait until c is over; those of b and d do not.
        assert_eq!(all(&mut runs, &[0, 1, 1, 1]), "c1 b2+ d2 -");
        assert_eq!(all(&mut runs, &[0, 1, 0, 0]), "a2+ - c2 -");
    }
}
