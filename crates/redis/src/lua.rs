//! The Lua that decides inside Redis: see `tollgate_lua`.

pub use tollgate_lua::*;
