//! A server's process: this program again, as `tower serve`. It ends with its standard input, or is killed.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};

use crate::Failure;
use crate::contenders::{Case, Contender};

pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start(contender: &Contender, case: Case) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["serve", contender.name, case.name()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let output = child.stdout.take();
        // From here on, whatever goes wrong ends the process.
        let mut server = Self { child, address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)) };
        let mut port = String::new();
        BufReader::new(output.ok_or("a server without output")?).read_line(&mut port)?;
        let port = port.trim().parse().map_err(|_| format!("expected {}'s port, found {port:?}", contender.name))?;
        server.address.set_port(port);
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
