//! Providers around a provider: one that records and disturbs, one that two
//! rings share in turn, one that answers what it is told to.

use core::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use farword::wr::{SendWr, Wc};
use farword::{Capabilities, Chain, DeviceFault, Errno, PostError, Provider};

/// Records every request and completion that passes, and disturbs as told.
#[derive(Debug)]
pub struct Tap<P> {
    pub inner: P,
    /// The requests that the inner provider took, in order.
    pub taken: Vec<SendWr>,
    /// How many chains were posted, refused ones included.
    pub chains: u32,
    pub completions: Vec<Wc>,
    /// What to do with the next chains, one each; then all pass.
    pub plan: VecDeque<Disturb>,
    /// What the next poll that finds nothing says, from then on.
    pub fault: Option<DeviceFault>,
}

/// What to do with a chain.
#[derive(Clone, Copy, Debug)]
pub enum Disturb {
    /// Let it pass.
    Pass,
    /// Take that many and refuse the rest.
    Refuse(u32, Errno),
    /// Take that many and do not say how many.
    LoseCount(u32, Errno),
}

impl<P: Provider> Tap<P> {
    pub fn new(inner: P) -> Self {
        let plan = VecDeque::new();
        Tap { inner, taken: Vec::new(), chains: 0, completions: Vec::new(), plan, fault: None }
    }

    pub fn with_plan(inner: P, plan: impl IntoIterator<Item = Disturb>) -> Self {
        Tap { plan: plan.into_iter().collect(), ..Tap::new(inner) }
    }

    fn pass(&mut self, chain: &mut Chain<'_>, count: u32) -> Result<(), PostError> {
        if count == 0 {
            return Ok(());
        }
        self.taken.extend(chain.requests().take(count as usize).map(|request| *request.wr()));
        chain.with_prefix(count, false, |prefix| self.inner.post(prefix))
    }
}

impl<P: Provider> Provider for Tap<P> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn post(&mut self, mut chain: Chain<'_>) -> Result<(), PostError> {
        self.chains += 1;
        let (count, answer) = match self.plan.pop_front() {
            None | Some(Disturb::Pass) => (chain.len(), Ok(())),
            Some(Disturb::Refuse(taken, errno)) => {
                (taken, Err(PostError::Refused { taken, errno }))
            }
            Some(Disturb::LoseCount(taken, errno)) => (taken, Err(PostError::Unknown { errno })),
        };
        self.pass(&mut chain, count)?;
        answer
    }

    fn poll(&mut self, into: &mut [Wc]) -> Result<usize, DeviceFault> {
        let count = self.inner.poll(into)?;
        self.completions.extend_from_slice(&into[..count]);
        match self.fault {
            Some(fault) if count == 0 => Err(fault),
            _ => Ok(count),
        }
    }

    fn abort(&mut self) {
        self.inner.abort();
    }
}

/// One queue pair that several rings use in turn, as when its number comes back.
#[derive(Debug)]
pub struct Reused<P>(pub Rc<RefCell<P>>);

impl<P> Clone for Reused<P> {
    fn clone(&self) -> Self {
        Reused(Rc::clone(&self.0))
    }
}

impl<P: Provider> Provider for Reused<P> {
    fn capabilities(&self) -> Capabilities {
        self.0.borrow().capabilities()
    }

    fn post(&mut self, chain: Chain<'_>) -> Result<(), PostError> {
        self.0.borrow_mut().post(chain)
    }

    /// One completion a call, so that it can be seen what each one does.
    fn poll(&mut self, into: &mut [Wc]) -> Result<usize, DeviceFault> {
        let one = into.len().min(1);
        self.0.borrow_mut().poll(&mut into[..one])
    }

    fn abort(&mut self) {
        self.0.borrow_mut().abort();
    }
}

/// Takes every request, and completes what the test says.
#[derive(Debug)]
pub struct Scripted {
    pub capabilities: Capabilities,
    /// The `wr_id` of every request that was posted.
    pub posted: Vec<u64>,
    pub answers: VecDeque<Wc>,
}

impl Scripted {
    pub fn new(depth: u32) -> Self {
        let capabilities = Capabilities::new(depth, depth);
        Scripted { capabilities, posted: Vec::new(), answers: VecDeque::new() }
    }
}

impl Provider for Scripted {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn post(&mut self, chain: Chain<'_>) -> Result<(), PostError> {
        self.posted.extend(chain.requests().map(|request| request.wr().wr_id));
        Ok(())
    }

    fn poll(&mut self, into: &mut [Wc]) -> Result<usize, DeviceFault> {
        let count = self.answers.len().min(into.len());
        for (slot, answer) in into.iter_mut().zip(self.answers.drain(..count)) {
            *slot = answer;
        }
        Ok(count)
    }
}
