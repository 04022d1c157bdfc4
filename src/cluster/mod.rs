//! Starts what a run needs and names its members.
