// Bare sockets, the measure of what the benchmarks print: two processes, no protocol. One line of JSON, microseconds.
//   socket unix|tcp UP DOWN ROUNDS    the parent sends UP bytes, the child answers with DOWN bytes when it has them all

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static void check(bool good, const char *what) {
    if (!good) {
        std::perror(what);
        std::_Exit(1);
    }
}

static void transfer(ssize_t (*move)(int, char *, size_t), int socket, std::vector<char> &bytes) {
    for (size_t done = 0; done < bytes.size();) {
        ssize_t moved = move(socket, bytes.data() + done, bytes.size() - done);
        if (moved <= 0) std::_Exit(0);
        done += size_t(moved);
    }
}

static ssize_t put(int socket, char *bytes, size_t size) { return write(socket, bytes, size); }
static ssize_t get(int socket, char *bytes, size_t size) { return read(socket, bytes, size); }

static void connected(bool tcp, int ends[2]) {
    if (!tcp) {
        check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
        return;
    }
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    check(bind(listener, reinterpret_cast<sockaddr *>(&address), size) == 0, "bind");
    check(listen(listener, 1) == 0, "listen");
    check(getsockname(listener, reinterpret_cast<sockaddr *>(&address), &size) == 0, "getsockname");
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    check(connect(ends[0], reinterpret_cast<sockaddr *>(&address), size) == 0, "connect");
    ends[1] = accept(listener, nullptr, nullptr);
    check(ends[1] >= 0, "accept");
    for (int i = 0; i < 2; ++i) setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    int ends[2];
    connected(!std::strcmp(argv[1], "tcp"), ends);
    std::vector<char> up(std::atol(argv[2]), 1), down(std::atol(argv[3]), 2);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        for (;;) {
            transfer(get, ends[1], up);
            transfer(put, ends[1], down);
        }
    }
    close(ends[1]);
    std::vector<double> times;
    for (int round = 0, rounds = std::atoi(argv[4]); round < rounds; ++round) {
        auto start = std::chrono::steady_clock::now();
        transfer(put, ends[0], up);
        transfer(get, ends[0], down);
        times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
    close(ends[0]);
    waitpid(child, nullptr, 0);
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    std::printf("{\"exchange\": %.4f}\n", times[times.size() / 2]);
    return 0;
}
