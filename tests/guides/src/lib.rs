//! The Rust of README and guides, compiled and run as it is printed: `cargo test --doc -p tollgate-guides`. Some of it
//! needs redis-server.

macro_rules! guides {
    ($($name:ident: $file:literal,)*) => {
        $(#[cfg(doctest)]
        #[doc = include_str!(concat!("../../../", $file))]
        pub struct $name;)*
    };
}

guides! {
    Readme: "README.md",
    Embedding: "docs/embedding.md",
    Redis: "docs/redis.md",
    Tower: "docs/tower.md",
    TowerKeys: "docs/tower/keys.md",
    TowerRoutes: "docs/tower/routes.md",
    TowerSettling: "docs/tower/settling.md",
    TowerFields: "docs/tower/fields.md",
    TowerAnswers: "docs/tower/answers.md",
    TowerLayers: "docs/tower/layers.md",
    TowerGrpc: "docs/tower/grpc.md",
    TowerWaiting: "docs/tower/waiting.md",
    TowerConcurrency: "docs/tower/concurrency.md",
    TowerStores: "docs/tower/stores.md",
    TowerPlug: "docs/tower/plug.md",
    TowerClient: "docs/tower/client.md",
    TowerTesting: "docs/tower/testing.md",
    TowerPitfalls: "docs/tower/pitfalls.md",
    TowerDefaults: "docs/tower/defaults.md",
    TowerCosts: "docs/tower/costs.md",
    TowerMoving: "docs/tower/moving.md",
}
