//! Systems that are not Linux: there is no [`Server`], and starting one says why.

use super::{Engine, ServerError, Setup};
use anomalist_databases::Target;
use std::convert::Infallible;
use std::path::{Path, PathBuf};

/// A throw-away server. There is none on this system.
pub struct Server(Infallible);

/// Where a program that comes with a database is: it is not looked for on this system.
pub fn program(_engine: Engine, _name: &'static str) -> Result<PathBuf, ServerError> {
    Err(ServerError::NeedsLinux)
}

impl Server {
    /// Fails with [`ServerError::NeedsLinux`].
    pub fn start(_engine: Engine, _setup: &Setup) -> Result<Server, ServerError> {
        Err(ServerError::NeedsLinux)
    }

    /// What runs.
    pub fn engine(&self) -> Engine {
        match self.0 {}
    }

    /// How many nodes it has.
    pub fn nodes(&self) -> usize {
        match self.0 {}
    }

    /// Where a node is reached.
    pub fn target(&self, _node: usize) -> &Target {
        match self.0 {}
    }

    /// The administrator's password.
    pub fn password(&self, _node: usize) -> &str {
        match self.0 {}
    }

    /// The address of a node with the password.
    pub fn url(&self, _node: usize) -> String {
        match self.0 {}
    }

    /// Where all nodes are reached.
    pub fn targets(&self) -> Vec<Target> {
        match self.0 {}
    }

    /// Its folder, with logs.
    pub fn folder(&self) -> &Path {
        match self.0 {}
    }

    /// The end of a node's log.
    pub fn log(&self, _node: usize) -> String {
        match self.0 {}
    }

    /// Whether the node's process runs.
    pub fn is_running(&self, _node: usize) -> bool {
        match self.0 {}
    }

    /// Ends a node properly and waits for it.
    pub fn stop(&self, _node: usize) -> Result<(), ServerError> {
        match self.0 {}
    }

    /// Kills a node with all its processes.
    pub fn kill(&self, _node: usize) {
        match self.0 {}
    }

    /// Starts a node that was stopped or killed.
    pub fn start_again(&self, _node: usize) -> Result<(), ServerError> {
        match self.0 {}
    }

    /// Pauses all processes of a node.
    pub fn pause(&self, _node: usize) {
        match self.0 {}
    }

    /// Resumes a paused node.
    pub fn resume(&self, _node: usize) {
        match self.0 {}
    }
}
