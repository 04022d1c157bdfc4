//! What is known of Redlock comes out, and the search agrees with one that was written from the rules alone.

mod by_hand;
mod known;
mod limits;
