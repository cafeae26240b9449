/* Sets TCP_NODELAY on every connection that a program accepts, for a server that forgets to:
 *   cc -shared -fPIC -O2 -o nodelay.so nodelay.c -ldl && LD_PRELOAD=./nodelay.so SERVER
 * `cargo xtask bench server` builds it and puts it before throttlecrab-server. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static int without_delay(int connection) {
    int on = 1;
    if (connection >= 0) {
        setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    return connection;
}

int accept(int listener, struct sockaddr *restrict from, socklen_t *restrict length) {
    int (*real)(int, struct sockaddr *, socklen_t *) = dlsym(RTLD_NEXT, "accept");
    return without_delay(real(listener, from, length));
}

int accept4(int listener, struct sockaddr *restrict from, socklen_t *restrict length, int flags) {
    int (*real)(int, struct sockaddr *, socklen_t *, int) = dlsym(RTLD_NEXT, "accept4");
    return without_delay(real(listener, from, length, flags));
}
