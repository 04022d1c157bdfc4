//! Fencing tokens increase from acquisition to acquisition. The theory is in `checker/locks.rs`.

use super::super::evidence;
use super::super::words;
use super::*;

pub static DEF: Property = Property {
    id: "tokens",
    rank: Rank::Claim(ClaimDef {
        claim: Claim::Tokens,
        conditional: false,
        decides: |run| run.claims.contains(&Claim::Tokens),
        concerns: |history| {
            history.operations.iter().flat_map(|operation| &operation.phases).any(|stamp| stamp.token.is_some())
        },
        counted: |verdict| verdict.lock.token_regressions,
        retitled: |_| None,
        reason: |seen| {
            let regressions = words::count(seen.verdict.lock.token_regressions, "acquisition");
            format!("{regressions} with a token that does not increase")
        },
        found: |seen| match (seen.verdict.lock.token_regressions, seen.verdict.lock.tokens) {
            (0, 0) => "no client reported a token".to_string(),
            (0, tokens) => format!("{} in rising order", plural(tokens, "token")),
            (many, tokens) => format!("{} of {} did not increase", count(many), plural(tokens, "token")),
        },
        headline: |seen, of| {
            let tokens = seen.verdict.lock.token_regressions;
            let increase = if tokens == 1 { "does not increase" } else { "do not increase" };
            format!("{} handed out {} that {increase}.", of.lock, plural(tokens, "token"))
        },
    }),
    title: "Fencing tokens increase",
    applies: "runs whose locks come with tokens",
    parameter: None,
    check: |case| Findings {
        anomalies: case.tokens.anomalies.clone(),
        evidence: evidence::tokens(case.history, case.tokens.comparable),
    },
};

/// An acquisition had a token not greater than the token of an earlier acquisition.
pub static TOKEN_REGRESS: AnomalyDef = AnomalyDef {
    name: "token that does not increase",
    incident: "A token that does not increase",
    lines: Lines::Grants,
    blames: Blames::Counters,
};
