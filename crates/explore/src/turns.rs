//! Clients that run side by side, in an order that is repeatable.
//!
//! Weakdb decides what a read returns; in which order transactions arrive is up to the program.
//! [`concurrently`] runs each client on a thread of its own, but lets them go on one at a time, transaction
//! by transaction: the client whose turn it is. So one seed repeats a run, and every order can be tried
//! ([`systematic`](crate::systematic)).

use crate::decisions::Decisions;
use anomalist_weakdb::{Error, Session, Store};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Why a client stopped.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// The store refused something for good.
    #[error(transparent)]
    Store(#[from] Error),
    /// The run leads nowhere new and has been given up ([`systematic`](crate::systematic)).
    #[error("this run has been given up")]
    Abandoned,
}

/// Who goes next.
#[derive(Clone, Debug)]
pub enum Turns {
    /// The client that the operating system lets run.
    Free,
    /// A random client, by this seed.
    Shuffled(u64),
    /// As decided.
    Decided(Arc<Mutex<Decisions>>),
}

/// How often a refused transaction is tried again.
const RETRIES: usize = 100;

/// A client at work: a session that waits for its turn before each transaction.
pub struct Client {
    session: Session,
    number: usize,
    gate: Option<Arc<Gate>>,
}

impl Client {
    /// Its number, from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Runs a transaction, and runs it again if it was refused.
    pub fn transaction<T>(
        &mut self,
        mut body: impl FnMut(&mut Session) -> Result<T, Error>,
    ) -> Result<T, Stop> {
        let mut tries = 0;
        loop {
            if let Some(gate) = &self.gate {
                gate.wait(self.number)?;
            }
            match self.session.transaction(&mut body) {
                Err(Error::Serialization(_)) if tries < RETRIES => tries += 1,
                other => return other.map_err(Stop::from),
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(gate) = &self.gate {
            gate.leave(self.number);
        }
    }
}

/// What a client does.
pub type Body<'a, T> = Box<dyn FnOnce(&mut Client) -> Result<T, Stop> + Send + 'a>;

/// Runs these clients side by side, each in a session of its own, and returns what they return, in their
/// order.
pub fn concurrently<T: Send>(
    store: &Arc<Store>,
    turns: &Turns,
    bodies: Vec<Body<'_, T>>,
) -> Result<Vec<T>, Stop> {
    let gate = match turns {
        Turns::Free => None,
        Turns::Shuffled(seed) => Some(Director::Random(fastrand::Rng::with_seed(*seed))),
        Turns::Decided(decisions) => Some(Director::Decided(decisions.clone())),
    };
    let gate = gate.map(|director| Arc::new(Gate::new(bodies.len(), director, store.clone())));
    let clients: Vec<Client> = (0..bodies.len())
        .map(|number| Client {
            session: store.session(&format!("client {}", number + 1)),
            number,
            gate: gate.clone(),
        })
        .collect();
    std::thread::scope(|scope| {
        let handles: Vec<_> = bodies
            .into_iter()
            .zip(clients)
            .map(|(body, mut client)| scope.spawn(move || body(&mut client)))
            .collect();
        let joined: Vec<_> = handles.into_iter().map(|h| h.join()).collect();
        joined.into_iter().map(|r| r.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

enum Director {
    Random(fastrand::Rng),
    Decided(Arc<Mutex<Decisions>>),
}

/// Lets one client at a time go on, once all have arrived.
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    store: Arc<Store>,
}

struct State {
    director: Director,
    /// Clients that have not finished, ascending.
    live: Vec<usize>,
    waiting: Vec<usize>,
    turn: Option<usize>,
    abandoned: bool,
}

impl Gate {
    fn new(clients: usize, director: Director, store: Arc<Store>) -> Gate {
        let state = State {
            director,
            live: (0..clients).collect(),
            waiting: Vec::new(),
            turn: None,
            abandoned: false,
        };
        Gate { state: Mutex::new(state), changed: Condvar::new(), store }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, number: usize) -> Result<(), Stop> {
        let mut state = self.lock();
        if state.turn == Some(number) {
            state.turn = None;
        }
        state.waiting.push(number);
        self.appoint(&mut state);
        let waiting = |s: &mut State| s.turn != Some(number) && !s.abandoned;
        let mut state = self.changed.wait_while(state, waiting).unwrap_or_else(PoisonError::into_inner);
        state.waiting.retain(|&n| n != number);
        if state.abandoned { Err(Stop::Abandoned) } else { Ok(()) }
    }

    fn leave(&self, number: usize) {
        let mut state = self.lock();
        state.live.retain(|&n| n != number);
        if state.turn == Some(number) {
            state.turn = None;
        }
        self.appoint(&mut state);
    }

    /// Says whose turn it is, once everybody waits for it.
    fn appoint(&self, state: &mut State) {
        if state.turn.is_some() || state.live.is_empty() || state.waiting.len() < state.live.len() {
            return;
        }
        let pick = match &mut state.director {
            Director::Random(random) => Some(random.usize(..state.live.len())),
            Director::Decided(decisions) => decisions
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .at_boundary(state.live.len(), || self.store.fingerprint()),
        };
        match pick {
            Some(pick) => state.turn = Some(state.live[pick]),
            None => state.abandoned = true,
        }
        self.changed.notify_all();
    }
}
