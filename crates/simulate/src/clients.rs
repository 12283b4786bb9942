//! Clients.
use crate::{Seen, World};
use fastrand::Rng;

/// A plan.
pub struct Clients;
impl World for Clients {
    type Step = ();
    fn plan(_: &mut Rng) -> Clients {
        Clients
    }
    fn steps(&self) -> &[()] {
        &[]
    }
    fn with(&self, _: Vec<()>) -> Clients {
        Clients
    }
    fn describe(&self) -> String {
        String::new()
    }
    fn run(&self, _: &mut Seen) -> Result<(), String> {
        Ok(())
    }
}
