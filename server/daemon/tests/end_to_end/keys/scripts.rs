//! Scripts by their SHA-1, libraries, and functions of our own.

use tollgate_kernel::Policy;
use tollgate_redis::lua::LuaNaming;

use crate::keys::support::KeysTestServer;

const FIXED: &str = "55ba4f2b9f5502abca03fca95fc9e3f2e504bd50";
const NOSCRIPT: &str = "-NOSCRIPT No matching script. Please use EVAL.";

#[test]
fn published_scripts_are_known_by_their_sha() {
    let mut server = KeysTestServer::new();
    let now = "1700000040000000";
    server.expect(&[
        ("EVALSHA 1533c10715a2840138ba6a19f2bbd52e8ba389fd 1 s 1 ns [[1,5,1]] 1700000040 0", "$-1"),
        ("EVALSHA 1533c10715a2840138ba6a19f2bbd52e8ba389fd 1 s 1 ns [[1,5,1]] 1700000040 1", ":5"),
        ("EVALSHA c1099fa79e595bf443041fbc8f72ea50999f6fa6 1 a 4 ns [[2,2,1]] 1700000040 1", ":2"),
        ("EVALSHA 31b1d0758f8a955fd4b0eac57648ec1c5575fbb5 1 w 1000 1", ":0"),
        ("EVALSHA 31b1d0758f8a955fd4b0eac57648ec1c5575fbb5 1 w 1000 1", ":1"),
        ("FCALL sliding_window 1 w 1000 1", ":1"),
        (
            "EVALSHA 31B1D0758F8A955FD4B0EAC57648EC1C5575FBB5 1 w 1000",
            "-ERR arguments: expected 2 or more (size, limit, ..., extra_ttl), found 1",
        ),
        ("EVALSHA 55ba4f2b9f5502abca03fca95fc9e3f2e504bd50 1 f 1 60", "*2 $5 allow *3 $1 1 $2 60 $1 0"),
        // The script's word to its own clients, the document's to others.
        ("EVALSHA 55ba4f2b9f5502abca03fca95fc9e3f2e504bd50 1 f 1 60", "*2 $4 deny *3 $1 1 $2 60 $1 0"),
        ("FCALL fixed_window 1 f 1 60", "*2 $5 block *3 $1 1 $2 60 $1 0"),
        (
            "EVALSHA 4d3e5de585c716fafe1644e512d03e9ea7b35762 1 b 1 60 1",
            "*2 $5 allow *4 $36 1 1;w=60;burst=1;policy=token_bucket $2 60 $1 0 $2 60",
        ),
        (
            "EVALSHA 4d3e5de585c716fafe1644e512d03e9ea7b35762 1 b 1 60 1",
            "*2 $4 deny *4 $36 1 1;w=60;burst=1;policy=token_bucket $2 60 $1 0 $2 60",
        ),
        (
            &format!(
                "EVALSHA 1132da6df6e0d836fd4602c66b2a6623c8068413 2 0:u 1:u 1 2 {now} 0 0 3 2 360000 6000 10000 10000"
            ) as &str,
            "*3 :0 :2 :3600180000",
        ),
        ("EXISTS ns:{s} ns:{a} w f b 0:u 1:u", ":7"),
        ("PTTL f", ":60000"),
    ]);
}

#[test]
fn after_a_flush_a_script_has_to_be_brought_again() {
    let mut server = KeysTestServer::new();
    let exists = format!("SCRIPT EXISTS {FIXED} {} x", FIXED.to_uppercase());
    server.expect(&[(&exists as &str, "*3 :1 :1 :0"), ("SCRIPT FLUSH", "+OK"), (&exists, "*3 :0 :0 :0")]);
    assert_eq!(server.ask(&format!("EVALSHA {FIXED} 1 f 1 60")), NOSCRIPT);
    // For the connection that flushed, and for no other: that needs no more than the scope check.
    let own = tollgate_redis::lua::dialect_script("fixed_window").unwrap();
    let call = |sha: &str| ["EVALSHA".to_owned(), sha.to_owned(), "1".into(), "f".into(), "1".into(), "60".into()];
    let mut other = server.another();
    assert_eq!(server.client.ask(&call(&own.sha)), NOSCRIPT);
    assert_eq!(other.ask(&call(&own.sha)), "*2 $5 allow *3 $1 1 $2 60 $1 0");
    let text = ["EVAL", &own.text, "1", "f", "1", "60"];
    assert_eq!(server.client.ask(&text), "*2 $5 block *3 $1 1 $2 60 $1 0");
    assert_eq!(server.client.ask(&call(&own.sha)), "*2 $5 block *3 $1 1 $2 60 $1 0");
    server.expect(&[
        ("SCRIPT FLUSH ASYNC", "+OK"),
        ("SCRIPT FLUSH LATER", "-ERR SCRIPT FLUSH only support SYNC|ASYNC option"),
    ]);
    assert_eq!(server.client.ask(&call(&own.sha)), NOSCRIPT);
    assert_eq!(other.ask(&call(&own.sha)), "*2 $5 block *3 $1 1 $2 60 $1 0");
    assert_eq!(server.client.ask(&["SCRIPT", "LOAD", &own.text]), format!("$40 {}", own.sha));
    assert_eq!(server.client.ask(&call(&own.sha)), "*2 $5 block *3 $1 1 $2 60 $1 0");
    // A client's own way through it.
    let script = tollgate_redis::lua::whole_script("tollgate").unwrap();
    let mut connection = server.redis();
    redis::cmd("SCRIPT").arg("FLUSH").arg("SYNC").exec(&mut connection).unwrap();
    let mut invoke = |way: &str, what: &str| -> redis::RedisResult<Vec<i64>> {
        redis::cmd(way).arg(what).arg(1).arg("tg:{u}").arg("5/min").query(&mut connection)
    };
    let missing = invoke("EVALSHA", &script.sha).unwrap_err();
    assert_eq!(missing.kind(), redis::ServerErrorKind::NoScript.into());
    assert_eq!(invoke("EVAL", &script.text).unwrap(), [1, 1, 4, 0, 60_000_000, 0]);
    assert_eq!(invoke("EVALSHA", &script.sha).unwrap(), [1, 1, 3, 0, 60_000_000, 0]);
    server.expect(&[("TG.PEEK u 5/min", "*6 :1 :1 :3 :0 :60000000 :0")]);
}

#[test]
fn any_other_script_is_told_where_to_run() {
    let mut server = KeysTestServer::new();
    for command in [&["EVAL", "return 1", "0"][..], &["SCRIPT", "LOAD", "return 1"], &["EVAL_RO", "return 1", "0"]] {
        let reply = server.client.ask(command);
        for part in [
            "-ERR this server runs no Lua",
            "sliding_window",
            "e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
            "--script SHA1=DIALECT",
        ] {
            assert!(reply.contains(part), "{reply}");
        }
    }
    server.expect(&[
        ("EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", NOSCRIPT),
        ("EVAL text x", "-ERR value is not an integer or out of range"),
        ("EVAL text -1", "-ERR Number of keys can't be negative"),
        ("EVAL text 1", "-ERR Number of keys can't be greater than number of args"),
        ("SCRIPT KILL", "-NOTBUSY No scripts in execution right now."),
        ("SCRIPT DEBUG YES", "-ERR unknown subcommand \"DEBUG\". Expected SCRIPT LOAD, EXISTS, FLUSH or KILL"),
        ("SCRIPT LOAD", "-ERR wrong number of arguments for 'script|load' command"),
    ]);
    assert_eq!(
        server.ask(&format!("EVALSHA_RO {FIXED} 1 f 1 60")),
        "-ERR Can not execute a script with write flag using *_ro command."
    );
    let peek = tollgate_redis::lua::whole_script("tollgate_peek").unwrap();
    let call = ["EVALSHA_RO", &peek.sha, "1", "tg:{u}", "5/min"];
    assert_eq!(server.client.ask(&call), "*6 :1 :1 :5 :0 :0 :0");
}

#[test]
fn functions_of_our_own_ask_the_same_questions() {
    let mut server = KeysTestServer::without_reset();
    server.expect(&[
        ("FCALL tollgate 1 tg:{user:42} 1/min,5/h", "*6 :1 :1 :0 :0 :3600000000 :0"),
        ("TG.CHECK user:42 1/min,5/h", "*6 :0 :0 :0 :60000000 :3600000000 :1"),
        ("FCALL tollgate_0_1 1 tg:{user:42} 1/min,5/h", "*6 :0 :0 :0 :60000000 :3600000000 :1"),
        ("FCALL tollgate_peek 1 tg:{user:42} 1/min,5/h cost 2", "*6 :0 :0 :0 :-1 :3600000000 :1"),
        ("FCALL_RO tollgate_peek 1 tg:{user:42} 5/h", "*6 :1 :1 :4 :0 :3600000000 :0"),
        ("FCALL tollgate 1 tg:{user:42}login 5/h COST 2 REST", "*9 :1 :2 :3 :0 :3600000000 :0 :2 :0 :1700000040000000"),
        ("TG.PEEK user:42 5/h NAME login", "*6 :1 :1 :3 :0 :3600000000 :0"),
        (
            "FCALL tollgate 1 tg:{user:42}login 5/h COST 9 MODE nary FULL",
            "*14 :1 :3 :0 :0 :3600000000 :1 :3 :3600000000 :1700000040000000 :0 :0 :3600000000 :3600000000 :5",
        ),
        (
            "FCALL tollgate_refund 1 tg:{user:42}login 5/h 2 1700000040000000",
            "-NOPERM expected a token with the scope refund: AUTH token; this connection has check,read; add refund to \
             the token's scopes",
        ),
        ("TG.PEEK user:42 5/h NAME login", "*6 :0 :0 :0 :3600000000 :3600000000 :1"),
    ]);
    server.login();
    server.expect(&[
        ("FCALL tollgate_refund 1 tg:{user:42}login 5/h 2 1700000040000000", ":2"),
        ("FCALL tollgate_refund 1 x 2/min 5", "-ERR arguments: expected 3 (policy, n, at_us), found 2"),
        ("TG.PEEK user:42 5/h NAME login", "*6 :1 :1 :2 :0 :3600000000 :0"),
    ]);
    server.client = server.another();
    server.expect(&[
        ("FCALL tollgate 1 tg:{a%7Bb%7D%25} 5/h", "*6 :1 :1 :4 :0 :3600000000 :0"),
        ("TG.PEEK a{b}% 5/h", "*6 :1 :1 :4 :0 :3600000000 :0"),
        (
            "FCALL tollgate_all 2 tg:{x} tg:{y} 2/min 5/min 1 2",
            "-ERR cost: expected an integer from 0 to 9007199254740991, found \"5/min\"",
        ),
        (
            "FCALL tollgate_all 2 tg:{x} tg:{y} 2/min 1 5/min 2",
            "*20 :1 :0 :1 :1 :1 :0 :60000000 :0 :1 :0 :1700000040000000 :1 :2 :3 :0 :60000000 :0 :2 :0 :1700000040000000",
        ),
        ("FCALL tollgate_reset 1 tg:{x} 2/min", "-NOPERM expected a token with the scope reset: AUTH token; this connection has check,read"),
        ("FCALL tollgate 1 tg:{x}", "-ERR arguments: expected a policy such as \"100/min\", then COST n, MODE m, FULL, found none"),
        ("FCALL tollgate 2 x y 2/min", "-ERR keys: expected 1, found 2"),
        ("FCALL tollgate 1 x 2/min COST", "-ERR argument 2: expected COST n, MODE m, FULL or REST, found \"COST\""),
        ("FCALL tollgate 1 x 2/min MODE odd", "-ERR mode: expected binary, nary or uniform, found \"odd\""),
        ("FCALL tollgate 1 tg:{100%} 2/min", "-ERR key: expected { } and % of the key written as %7B %7D %25, as in tg:{100%25}, found \"tg:{100%}\""),
    ]);
    // As the Rust store sends it.
    let policy: Policy = "5/h".parse().unwrap();
    let compact = tollgate_redis::lua::compact(&policy);
    let reply = server.client.ask(&["FCALL", "tollgate_0_1", "1", "tg:{user:42}login", &compact, "REST"]);
    assert_eq!(reply, "*9 :1 :1 :1 :0 :3600000000 :0 :1 :0 :1700000040000000");
    let named: Policy = "5/h name=login".parse().unwrap();
    let reply = server.client.ask(&["FCALL", "tollgate", "1", "tg:{u}", &tollgate_redis::lua::compact(&named)]);
    assert!(reply.contains("the policy as text such as \"100/min\""), "{reply}");
    // The script the Rust store sends knows only the algorithms of its policy.
    let script = tollgate_redis::lua::script("tollgate_peek", &["sliding"]).unwrap();
    let call = |way: &str, script: &str| {
        [way.to_owned(), script.to_owned(), "1".into(), "tg:{user:42}login".into(), compact.clone()]
    };
    assert_eq!(server.client.ask(&call("EVALSHA", &script.sha)), NOSCRIPT);
    for (way, text) in [("EVAL", &script.text), ("EVALSHA", &script.sha)] {
        assert_eq!(server.client.ask(&call(way, text)), "*6 :1 :1 :1 :0 :3600000000 :0");
    }
}

#[test]
fn libraries_are_loaded_and_listed_as_in_redis() {
    let mut server = KeysTestServer::new();
    let plain = tollgate_redis::lua::library(LuaNaming::Plain);
    assert_eq!(server.client.ask(&["FUNCTION", "LOAD", "REPLACE", plain]), "$8 tollgate");
    assert_eq!(server.client.ask(&["FUNCTION", "LOAD", plain]), "-ERR Library 'tollgate' already exists");
    let versioned = tollgate_redis::lua::library(LuaNaming::Versioned);
    assert_eq!(server.client.ask(&["FUNCTION", "LOAD", "replace", versioned]), "$12 tollgate_0_1");
    assert_eq!(server.client.ask(&["FUNCTION", "LOAD", "NOW", plain]), "-ERR Unknown option given: \"NOW\"");
    let other =
        server.client.ask(&["FUNCTION", "LOAD", "#!lua name=mine\nredis.register_function('f', function() end)"]);
    assert!(other.contains("runs no Lua") && other.contains("found another text"), "{other}");
    let list = server.ask("FUNCTION LIST LIBRARYNAME tollgate");
    let start = "*1 *6 $12 library_name $8 tollgate $6 engine $3 LUA $9 functions *12 \
                 *6 $4 name $8 tollgate $11 description $-1 $5 flags *0 \
                 *6 $4 name $13 tollgate_peek $11 description $-1 $5 flags *1 $9 no-writes";
    assert!(list.starts_with(start), "{list}");
    for name in
        ["tollgate_reset $11 description $-1 $5 flags *1 $9 allow-oom", "sliding_window", "api_counter", "rolling"]
    {
        assert!(list.contains(name), "{list}");
    }
    assert!(server.ask("FUNCTION LIST").starts_with("*2 *6"));
    assert_eq!(server.ask("FUNCTION LIST LIBRARYNAME nosuch*"), "*0");
    let with_code = server.ask("FUNCTION LIST WITHCODE LIBRARYNAME tollgate");
    assert!(with_code.contains("$12 library_code $") && with_code.contains("#!lua name=tollgate"));
    server.expect(&[
        ("FUNCTION LIST NOW", "-ERR Unknown argument \"NOW\""),
        (
            "FUNCTION FLUSH",
            "-NOPERM expected a token with the scope admin: AUTH token; this connection has check,read,reset",
        ),
        (
            "FUNCTION DELETE tollgate",
            "-NOPERM expected a token with the scope admin: AUTH token; this connection has check,read,reset",
        ),
        ("FUNCTION DUMP", "-ERR unknown subcommand \"DUMP\". Expected FUNCTION LOAD, LIST, DELETE or FLUSH"),
        ("FUNCTION LOAD", "-ERR wrong number of arguments for 'function|load' command"),
    ]);
}
