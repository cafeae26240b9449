//! Posts that wait: a bounded number, of which the oldest is dropped if there are more, and one a second for each
//! policy.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most posts that wait.
pub(super) const WAITING: usize = 256;
/// The least time between two posts of a policy.
pub(super) const APART: Duration = Duration::from_secs(1);

/// A post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WebhookPost {
    pub(super) policy: Arc<str>,
    pub(super) body: String,
}

/// The posts that wait.
#[derive(Debug, Default)]
pub(super) struct PostQueue {
    waiting: VecDeque<WebhookPost>,
    /// The times of the last post of each policy, if it was a moment ago.
    last: HashMap<Arc<str>, Instant>,
}

/// The next step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PostQueueStep {
    Post(WebhookPost),
    /// All waiting posts are of policies that had one a moment ago.
    Wait(Duration),
    Nothing,
}

impl PostQueue {
    /// Adds a post; returns how many were dropped for it.
    pub(super) fn push(&mut self, post: WebhookPost) -> u64 {
        let full = self.waiting.len() >= WAITING;
        if full {
            self.waiting.pop_front();
        }
        self.waiting.push_back(post);
        u64::from(full)
    }

    /// Returns the oldest post whose policy had none a moment ago.
    pub(super) fn next(&mut self, now: Instant) -> PostQueueStep {
        self.last.retain(|_, last| now.saturating_duration_since(*last) < APART);
        let Some(place) = self.waiting.iter().position(|post| !self.last.contains_key(&post.policy)) else {
            let soonest = self.waiting.iter().filter_map(|post| self.last.get(&post.policy)).min();
            return soonest.map_or(PostQueueStep::Nothing, |last| {
                PostQueueStep::Wait(APART.saturating_sub(now.duration_since(*last)))
            });
        };
        match self.waiting.remove(place) {
            Some(post) => {
                self.last.insert(Arc::clone(&post.policy), now);
                PostQueueStep::Post(post)
            }
            None => PostQueueStep::Nothing,
        }
    }

    /// Drops all waiting posts; returns their number.
    pub(super) fn clear(&mut self) -> u64 {
        self.waiting.drain(..).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(policy: &str, body: usize) -> WebhookPost {
        WebhookPost { policy: policy.into(), body: body.to_string() }
    }

    #[test]
    fn a_policy_has_one_post_a_second_and_others_do_not_wait_for_it() {
        let mut queue = PostQueue::default();
        let now = Instant::now();
        assert_eq!(queue.next(now), PostQueueStep::Nothing);
        for (policy, body) in [("a", 1), ("a", 2), ("b", 3), ("a", 4)] {
            assert_eq!(queue.push(post(policy, body)), 0);
        }
        assert_eq!(queue.next(now), PostQueueStep::Post(post("a", 1)));
        assert_eq!(queue.next(now), PostQueueStep::Post(post("b", 3)));
        let soon = now + Duration::from_millis(400);
        assert_eq!(queue.next(soon), PostQueueStep::Wait(Duration::from_millis(600)));
        assert_eq!(queue.next(now + APART), PostQueueStep::Post(post("a", 2)), "in order");
        assert_eq!(queue.next(now + APART), PostQueueStep::Wait(APART));
        assert_eq!(queue.next(now + 2 * APART), PostQueueStep::Post(post("a", 4)));
        assert_eq!(queue.next(now + 9 * APART), PostQueueStep::Nothing);
        assert!(queue.last.is_empty(), "what was long ago is not kept");
    }

    #[test]
    fn a_burst_of_policies_keeps_the_newest() {
        let mut queue = PostQueue::default();
        let dropped: u64 = (0..10_000).map(|number| queue.push(post(&number.to_string(), number))).sum();
        assert_eq!((dropped, queue.waiting.len()), (10_000 - WAITING as u64, WAITING));
        assert_eq!(
            queue.next(Instant::now()),
            PostQueueStep::Post(post(&(10_000 - WAITING).to_string(), 10_000 - WAITING))
        );
        assert_eq!(queue.clear(), WAITING as u64 - 1);
    }
}
