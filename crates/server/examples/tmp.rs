fn main() {
    let mut settings = tollgate_server::Settings::default();
    if let Some(threads) = std::env::args().nth(1) {
        settings.threads = threads.parse().unwrap();
    }
    settings.http = None;
    let server = tollgate_server::Server::start(settings).unwrap();
    println!("{:?}", server.resp_addr());
    std::thread::park();
}
