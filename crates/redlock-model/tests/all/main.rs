//! The known facts about Redlock follow, and the search agrees with one that was written from the rules alone.

mod by_hand;
mod known;
mod limits;
