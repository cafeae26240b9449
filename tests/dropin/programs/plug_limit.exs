# A plug around PlugLimit's scripts, written after that limiter's document, in Elixir by the Redis client eredis.
#
# Run by `cargo xtask dropin`. REDIS_URL names the server, SCRIPTS the folder of the scripts that it loads. PUBLISHED is
# 1 where the server knows the published scripts by their SHA-1 and runs no others, LONG is 1 where windows are waited
# for. Exits with an error if a test fails.

ExUnit.start(autorun: false, seed: 0)

defmodule Limiter do
  # A limiter of the application: its script, the names of its headers, its options and what makes the keys.
  defstruct [:redis, :sha, :text, :headers, :opts, :key, enabled?: true, response: &__MODULE__.put_response/3]

  # Answers the connection as it goes on: with headers, halted, or untouched where nothing was decided.
  def call(conn, %__MODULE__{enabled?: enabled}) when not enabled, do: conn

  def call(conn, limiter) do
    with {:ok, keys} <- keys(conn, limiter), {:ok, reply} <- decide(limiter, keys) do
      limiter.response.(conn, limiter, reply)
    else
      {:error, reason} -> %{conn | logged: [reason | conn.logged]}
    end
  end

  def decide(%{redis: redis, sha: sha, text: text, opts: opts}, keys) do
    args = [length(keys) | keys] ++ opts

    case :eredis.q(redis, ["EVALSHA", sha | args]) do
      {:error, "NOSCRIPT" <> _} when text != nil -> :eredis.q(redis, ["EVAL", text | args])
      answer -> answer
    end
  end

  # Headers by their place; a pair has a name of its own. Anything but "allow" is answered 429.
  def put_response(conn, limiter, [decision, values | _]) do
    named = fn
      {[name, value], _} -> {name, value}
      {value, name} -> {name, value}
    end

    names = Stream.concat(limiter.headers, Stream.cycle([nil]))
    conn = %{conn | resp_headers: values |> Enum.zip(names) |> Enum.map(named)}
    refused = %{status: 429, type: "text/plain", body: "Too Many Requests", halted: true}
    if decision == "allow", do: conn, else: Map.merge(conn, refused)
  end

  defp keys(conn, limiter) do
    {:ok, limiter.key.(conn)}
  rescue
    error -> {:error, Exception.message(error)}
  end
end

defmodule PlugLimitTest do
  use ExUnit.Case

  @headers ["x-ratelimit-limit", "x-ratelimit-reset", "x-ratelimit-remaining", "retry-after"]
  @conn %{client: "12345", resp_headers: [], status: nil, type: nil, body: nil, halted: false, logged: []}
  @published System.get_env("PUBLISHED") == "1"
  # The published scripts by SHA-1, each with its word for a refusal.
  @revisions %{
    "fixed_window" => [
      {"55ba4f2b9f5502abca03fca95fc9e3f2e504bd50", "deny"},
      {"74ef5ffac2da91ee3348aa0fc36460ccf4e026e6", "block"}
    ],
    "token_bucket" => [
      {"4d3e5de585c716fafe1644e512d03e9ea7b35762", "deny"},
      {"e94ec70d014de3d05d42fa2a73e3fa43b5d321d0", "block"}
    ]
  }
  # How long a window of a second may take to pass on a busy machine.
  @patience 30_000

  setup_all do
    %{redis: connect()}
  end

  setup %{redis: redis} do
    {:ok, "OK"} = :eredis.q(redis, ["FLUSHALL"])
    {:ok, []} = :eredis.q(redis, ["KEYS", "*"])
    :ok
  end

  defp connect do
    %URI{host: host, port: port, userinfo: userinfo} = URI.parse(System.fetch_env!("REDIS_URL"))
    [_user, password] = String.split(userinfo || ":", ":")
    {:ok, redis} = :eredis.start_link(String.to_charlist(host), port, 0, String.to_charlist(password))
    redis
  end

  defp text(name), do: File.read!("#{System.fetch_env!("SCRIPTS")}/#{name}.lua")
  defp sha(text), do: :crypto.hash(:sha, text) |> Base.encode16(case: :lower)

  # The scripts that this server takes for that name: the loaded text, and where they are known the published ones.
  defp scripts(name) do
    own = {sha(text(name)), text(name), "block"}
    published = for {sha, word} <- @revisions[name], do: {sha, nil, word}
    if @published, do: [own | published], else: [own]
  end

  defp limiter(redis, {sha, text, _}, opts) do
    key = fn conn -> ["my_protected_pipeline_name:" <> conn.client] end
    %Limiter{redis: redis, sha: sha, text: text, headers: @headers, opts: opts, key: key}
  end

  defp number(conn, name), do: conn.resp_headers |> List.keyfind(name, 0) |> elem(1) |> String.to_integer()

  test "the fixed window of the document", %{redis: redis} do
    for {_, _, word} = script <- scripts("fixed_window") do
      {:ok, _} = :eredis.q(redis, ["DEL", "my_protected_pipeline_name:12345"])
      limiter = limiter(redis, script, [10, 60])
      assert {:ok, ["allow", ["10", "60", "9"]]} = Limiter.decide(limiter, ["my_protected_pipeline_name:12345"])

      for left <- 8..0//-1 do
        conn = Limiter.call(@conn, limiter)
        assert [{"x-ratelimit-limit", "10"}, {"x-ratelimit-reset", reset}, _] = conn.resp_headers
        assert number(conn, "x-ratelimit-remaining") == left and String.to_integer(reset) in 1..60
        assert {conn.status, conn.halted} == {nil, false}
      end

      conn = Limiter.call(@conn, limiter)
      assert {conn.status, conn.type, conn.body, conn.halted} == {429, "text/plain", "Too Many Requests", true}
      assert number(conn, "x-ratelimit-remaining") == 0
      assert {:ok, [^word, _]} = Limiter.decide(limiter, ["my_protected_pipeline_name:12345"])
      # Another client has a window of its own.
      refute Limiter.call(%{@conn | client: "54321#{word}"}, limiter).halted
    end
  end

  test "the token bucket of the document", %{redis: redis} do
    for {_, _, word} = script <- scripts("token_bucket") do
      {:ok, _} = :eredis.q(redis, ["FLUSHALL"])
      assert {:ok, ["allow", headers]} = Limiter.decide(limiter(redis, script, [15, 60, 3]), ["bucket"])
      assert headers == ["15 15;w=60;burst=3;policy=token_bucket", "60", "14"]
      # A token every 300 seconds, so that none comes while this test runs.
      slow = limiter(redis, script, [15, 3600, 3])
      [_, _, last, refused] = for _ <- 1..4, do: Limiter.call(@conn, slow)
      assert {last.halted, number(last, "x-ratelimit-remaining")} == {false, 12}
      assert {refused.halted, refused.status, number(refused, "x-ratelimit-remaining")} == {true, 429, 12}

      for conn <- [last, refused] do
        assert number(conn, "retry-after") in 200..300 and number(conn, "x-ratelimit-reset") in 3500..3600
      end

      assert {:ok, [^word, _]} = Limiter.decide(slow, ["my_protected_pipeline_name:12345"])
    end
  end

  test "headers are named by their place, or by themselves" do
    limiter = %Limiter{headers: @headers}
    conn = Limiter.put_response(@conn, limiter, ["allow", ["10", ["x-acme-header", "60"], "9"]])
    assert conn.resp_headers == [{"x-ratelimit-limit", "10"}, {"x-acme-header", "60"}, {"x-ratelimit-remaining", "9"}]
  end

  test "callers at once get no more than the limit", %{redis: redis} do
    limiter = limiter(redis, hd(scripts("fixed_window")), [10, 3600])
    halted = Task.async_stream(1..40, fn _ -> Limiter.call(@conn, limiter).halted end, max_concurrency: 20)
    assert Enum.count(halted, &(&1 == {:ok, false})) == 10
  end

  test "a limiter that is off, or cannot decide, lets the request pass untouched", %{redis: redis} do
    limiter = limiter(redis, hd(scripts("fixed_window")), [1, 60])
    assert Limiter.call(@conn, %{limiter | enabled?: false}) == @conn
    assert {:ok, []} = :eredis.q(redis, ["KEYS", "*"])

    for broken <- [%{limiter | opts: ["x", 60]}, %{limiter | key: fn _ -> raise "no client" end}] do
      conn = Limiter.call(@conn, broken)
      assert length(conn.logged) == 1 and %{conn | logged: []} == @conn
    end

    raw = Limiter.call(@conn, %{limiter | response: fn _, _, reply -> reply end})
    assert raw == ["allow", ["1", "60", "0"]]
  end

  test "what its suite loads, looks at and removes", %{redis: redis} do
    {sha, text, _} = script = hd(scripts("fixed_window"))
    assert {:ok, ^sha} = :eredis.q(redis, ["SCRIPT", "LOAD", text])
    refute Limiter.call(@conn, limiter(redis, script, [10, 60])).halted
    assert {:ok, ["my_protected_pipeline_name:12345"]} = :eredis.q(redis, ["KEYS", "*"])
    assert {:ok, left} = :eredis.q(redis, ["PTTL", "my_protected_pipeline_name:12345"])
    assert String.to_integer(left) in 1..60_000
    {:ok, "OK"} = :eredis.q(redis, ["FLUSHALL"])
    assert {:ok, "0"} = :eredis.q(redis, ["EXISTS", "my_protected_pipeline_name:12345"])
    assert number(Limiter.call(@conn, limiter(redis, script, [10, 60])), "x-ratelimit-remaining") == 9
    # By its text, since no script is loaded now. Other connections may still see theirs.
    flushed = connect()
    {:ok, "OK"} = :eredis.q(flushed, ["SCRIPT", "FLUSH"])
    assert {:error, "NOSCRIPT" <> _} = Limiter.decide(limiter(flushed, {sha, nil, "block"}, [10, 60]), ["bucket"])
    assert number(Limiter.call(@conn, limiter(flushed, script, [10, 60])), "x-ratelimit-remaining") == 8
    :eredis.stop(flushed)
  end

  # Redis runs them. A server that runs no Lua says what to do, and the plug lets the request pass.
  test "scripts of the application, and helpers by EVAL", %{redis: redis} do
    own = "return {'allow', {'10', {'x-acme-header', '60'}, '9'}}"
    helper = :eredis.q(redis, ["EVAL", "return redis.call('PTTL', KEYS[1])", 1, "nothing"])
    loaded = :eredis.q(redis, ["SCRIPT", "LOAD", own])
    conn = Limiter.call(@conn, limiter(redis, {sha(own), own, "block"}, [10, 60]))

    if @published do
      for {:error, reason} <- [helper, loaded | Enum.map(conn.logged, &{:error, &1})] do
        assert reason =~ "runs no Lua" and reason =~ "--script SHA1=DIALECT"
      end

      assert {:error, _} = helper
      assert length(conn.logged) == 1 and %{conn | logged: []} == @conn
    else
      assert {helper, loaded} == {{:ok, "-2"}, {:ok, sha(own)}}
      assert {"x-acme-header", "60"} in conn.resp_headers
    end
  end

  if System.get_env("LONG") == "1" do
    test "a window ends after its seconds", %{redis: redis} do
      limiter = limiter(redis, hd(scripts("fixed_window")), [1, 1])
      began = System.monotonic_time(:millisecond)
      assert {:ok, ["allow", _]} = Limiter.decide(limiter, ["second"])
      wait(limiter, began)
      assert System.monotonic_time(:millisecond) - began >= 990
    end

    defp wait(limiter, began) do
      assert System.monotonic_time(:millisecond) - began < @patience

      unless match?({:ok, ["allow", _]}, Limiter.decide(limiter, ["second"])) do
        Process.sleep(10)
        wait(limiter, began)
      end
    end
  end
end

%{failures: failures, total: total} = ExUnit.run()
:ok = Application.load(:eredis)
IO.puts("plug_limit.exs: Elixir #{System.version()}, eredis #{Application.spec(:eredis, :vsn)}: #{total} tests")
if failures > 0 or total == 0, do: System.halt(1)
