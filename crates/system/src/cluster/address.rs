//! Addresses of members in a cluster's network. An address follows from the member's index, so it survives restarts.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::error::ClusterError;

/// The address of the member at index `place` in the cluster's order. None if the network is too small.
pub fn address(subnet: Ipv4Net, place: u64) -> Option<Ipv4Addr> {
    let offset = first_offset(subnet).checked_add(place)?;
    // The last address is the broadcast address.
    if offset.checked_add(1)? >= size(subnet) {
        return None;
    }
    let number = u64::from(u32::from(subnet.network())) + offset;
    u32::try_from(number).ok().map(Ipv4Addr::from)
}

/// Fails if this network has too few addresses for this many members.
pub fn check_room(subnet: Ipv4Net, members: u64) -> Result<(), ClusterError> {
    let room = room(subnet);
    if members > room { Err(ClusterError::SubnetTooSmall { subnet, room, needed: members }) } else { Ok(()) }
}

/// How many members have an address in this network.
pub fn room(subnet: Ipv4Net) -> u64 {
    size(subnet).saturating_sub(first_offset(subnet) + 1)
}

fn size(subnet: Ipv4Net) -> u64 {
    1u64 << (32 - subnet.prefix_len())
}

/// The first offset of members. The machine itself takes the first address, like an engine's gateway. In a /24 or larger, members
/// start at 10.
fn first_offset(subnet: Ipv4Net) -> u64 {
    if subnet.prefix_len() <= 24 { 10 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_has_an_address_inside() {
        let subnet: Ipv4Net = "10.213.1.0/24".parse().unwrap();
        assert_eq!(address(subnet, 0), Some(Ipv4Addr::new(10, 213, 1, 10)));
        assert_eq!(room(subnet), 245);
        for subnet in ["10.0.0.0/29", "10.0.0.0/28", "10.0.0.0/24", "10.0.0.0/16"] {
            let subnet: Ipv4Net = subnet.parse().unwrap();
            let last = address(subnet, room(subnet) - 1).unwrap();
            assert!(subnet.contains(&last) && last != subnet.broadcast());
            assert_eq!(address(subnet, room(subnet)), None);
        }
        for tiny in ["10.0.0.0/30", "10.0.0.0/31", "10.0.0.0/32"] {
            let tiny: Ipv4Net = tiny.parse().unwrap();
            assert!(room(tiny) <= 1, "{tiny}");
            assert_eq!(address(tiny, 5), None);
        }
    }
}
