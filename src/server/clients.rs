//! How many connections each client has.
//!
//! A client is an IPv4 address or an IPv6 network of 64 bits: one host commonly has a whole one, and would else be as many
//! clients as it likes. Remembers only who has a connection. Shown by the tests below.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The bits of an IPv6 address that tell hosts apart.
const NETWORK: u128 = !(u64::MAX as u128);

/// Connections by client, on all workers.
#[derive(Debug)]
pub(crate) struct Clients {
    most: usize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

impl Clients {
    /// `most` connections for each.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, open: Mutex::default() }
    }

    /// Counts a connection in, unless its client has too many.
    pub(crate) fn enter(&self, address: IpAddr) -> bool {
        let mut open = self.open();
        let count = open.entry(client(address)).or_default();
        let fits = *count < self.most;
        *count += usize::from(fits);
        fits
    }

    /// Counts out a connection that was counted in.
    pub(crate) fn leave(&self, address: IpAddr) {
        let mut open = self.open();
        let client = client(address);
        if let Some(count) = open.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                open.remove(&client);
            }
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whose address it is.
fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK)),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
    use super::*;

    fn enter(clients: &Clients, address: &str) -> bool {
        clients.enter(address.parse().unwrap())
    }

    #[test]
    fn each_client_has_its_own_count() {
        let clients = Clients::new(2);
        for address in ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8:0:1::1"] {
            assert!(enter(&clients, address) && enter(&clients, address) && !enter(&clients, address));
        }
        clients.leave("192.0.2.2".parse().unwrap());
        assert!(!enter(&clients, "192.0.2.1") && enter(&clients, "192.0.2.2"));
    }

    #[test]
    fn a_network_of_64_bits_is_one_client_and_so_is_an_ipv4_address_in_both_spellings() {
        let clients = Clients::new(2);
        assert!(enter(&clients, "2001:db8::1") && enter(&clients, "2001:db8::ffff:ffff:ffff:ffff"));
        assert!(!enter(&clients, "2001:db8::5"));
        assert!(enter(&clients, "192.0.2.1") && enter(&clients, "::ffff:192.0.2.1"));
        assert!(!enter(&clients, "192.0.2.1"));
        assert!(enter(&clients, "192.0.2.2"), "not all of IPv4 is one network");
    }

    #[test]
    fn who_has_left_is_forgotten() {
        let clients = Clients::new(1);
        for last in 0..100_u8 {
            let address = IpAddr::from([192, 0, 2, last]);
            assert!(clients.enter(address));
            clients.leave(address);
        }
        assert!(clients.open().is_empty());
    }
}
