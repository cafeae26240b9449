//! The Lua scripts: one per call, each made of the common part and its own part.

use std::sync::LazyLock;

use tollgate_kernel::StoreError;
use tollgate_redis::{CustomScript, Output, Redis};

const COMMON: &str = include_str!("lua/common.lua");

/// Takes a place.
pub(crate) static ACQUIRE: LazyLock<CustomScript> = LazyLock::new(|| script("", include_str!("lua/acquire.lua")));
/// Renews leases. It runs even if the server is out of memory, because the leases it renews exist already.
pub(crate) static RENEW: LazyLock<CustomScript> = LazyLock::new(|| script("allow-oom", include_str!("lua/renew.lua")));
/// Frees places. It runs even if the server is out of memory, because it frees memory.
pub(crate) static FREE: LazyLock<CustomScript> = LazyLock::new(|| script("allow-oom", include_str!("lua/free.lua")));
/// Counts the places that are taken.
pub(crate) static HELD: LazyLock<CustomScript> = LazyLock::new(|| script("no-writes", include_str!("lua/held.lua")));

fn script(flags: &str, own: &str) -> CustomScript {
    CustomScript::new(format!("#!lua flags={flags}\n{COMMON}\n{own}"))
}

/// Runs a script that returns an integer or a list of integers.
pub(crate) async fn run(
    store: &Redis,
    script: &CustomScript,
    key: &[u8],
    args: &[impl AsRef<[u8]>],
) -> Result<Vec<i64>, StoreError> {
    let number = |output: &Output| match output {
        Output::Integer(number) => Some(*number),
        _ => None,
    };
    let output = store.run_script(script, &[key], args).await?;
    let numbers = match &output {
        Output::List(outputs) => outputs.iter().map(number).collect(),
        output => number(output).map(|number| vec![number]),
    };
    numbers.ok_or_else(|| StoreError::Refused(format!("expected numbers from the script of permits, found {output:?}")))
}

#[cfg(test)]
mod with_redis {
    use std::time::Duration;

    use tollgate_kit::Server;

    use super::*;

    #[tokio::test]
    #[ignore = "needs redis-server: cargo xtask test"]
    async fn an_id_that_is_in_use_is_not_granted_again() {
        let server = Server::start().unwrap();
        let store = Redis::builder(&server.url()).deadline(Duration::from_secs(10)).connect().await.unwrap();
        let acquire = async |id: &str, most: &str| run(&store, &ACQUIRE, b"k", &[id, most, "60000"]).await.unwrap();
        assert_eq!(acquire("one", "2").await, [1, 0]);
        assert_eq!(acquire("one", "2").await, [2, 0]);
        assert_eq!(acquire("two", "2").await, [1, 0]);
        assert_eq!(acquire("two", "2").await, [2, 0], "also where all places are taken");
        assert_eq!(run(&store, &HELD, b"k", &[""; 0]).await.unwrap(), [2]);
        assert_eq!(run(&store, &FREE, b"k", &["60000", "one", "three", "two"]).await.unwrap(), [2]);
    }

    #[tokio::test]
    #[ignore = "needs redis-server: cargo xtask test"]
    async fn wrong_arguments_change_nothing() {
        let server = Server::start().unwrap();
        let store = Redis::builder(&server.url()).deadline(Duration::from_secs(10)).connect().await.unwrap();
        for (most, lease) in
            [("0", "1"), ("1000001", "1"), ("many", "1"), ("1.5", "1"), ("1", "0"), ("1", "86400001"), ("1", "")]
        {
            for (script, args) in [(&ACQUIRE, ["id", most, lease]), (&RENEW, [most, lease, "id"])] {
                let error = run(&store, script, b"k", &args).await.unwrap_err().to_string();
                assert!(error.contains("expected 1 to"), "{error}");
            }
        }
        assert_eq!(server.scan_all(|_, _| ()).unwrap(), 0);
    }

    #[tokio::test]
    #[ignore = "needs redis-server: cargo xtask test"]
    async fn leases_of_different_lengths_share_a_key() {
        let server = Server::start().unwrap();
        let store = Redis::builder(&server.url()).deadline(Duration::from_secs(10)).connect().await.unwrap();
        assert_eq!(run(&store, &ACQUIRE, b"k", &["long", "9", "3600000"]).await.unwrap(), [1, 0]);
        assert_eq!(run(&store, &ACQUIRE, b"k", &["short", "9", "100"]).await.unwrap(), [1, 0]);
        let mut left = 0;
        server.scan_all(|_, ms| left = ms).unwrap();
        assert!(left > 3_500_000, "the key lives as long as its longest lease: {left}");
    }
}
