// A forwarder that delays each direction by half a round-trip time, for measuring what distance costs.
//
//   delay_proxy forward MICROSECONDS LISTEN TARGET   every connection to LISTEN is forwarded to TARGET
//   delay_proxy echo LISTEN                          sends back what it receives
//   delay_proxy ping ROUNDS BYTES TARGET             one line of JSON: quantiles of a round trip, in microseconds
//
// Addresses are unix:PATH or tcp:IPV4:PORT. `forward` and `echo` print "ready" when they listen and end with their parent.
//
// Delay, not bandwidth: what arrives at time t is sent on at t + delay, in order, however much is on the way. One thread for each
// direction of a connection receives and sends, so that no wake-up of another thread is added. It sleeps until shortly before
// the next chunk is due and then spins: a sleeping thread wakes up late, by more than a delay of 25 us on a busy machine.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using Nanoseconds = long long;

constexpr size_t CHUNK = 256 * 1024;
constexpr Nanoseconds SPIN = 60'000;

[[noreturn]] static void fail(const std::string &what) {
    std::fprintf(stderr, "delay_proxy: %s: %s\n", what.c_str(), std::strerror(errno));
    std::exit(1);
}

static Nanoseconds now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

struct Address {
    sockaddr_storage storage{};
    socklen_t length = 0;

    explicit Address(const std::string &text) {
        if (text.rfind("unix:", 0) == 0) {
            auto *unix_address = reinterpret_cast<sockaddr_un *>(&storage);
            unix_address->sun_family = AF_UNIX;
            if (text.size() - 5 >= sizeof unix_address->sun_path) {
                errno = ENAMETOOLONG;
                fail(text);
            }
            std::strcpy(unix_address->sun_path, text.c_str() + 5);
            length = sizeof *unix_address;
            return;
        }
        const size_t colon = text.rfind(':');
        auto *internet = reinterpret_cast<sockaddr_in *>(&storage);
        internet->sin_family = AF_INET;
        if (text.rfind("tcp:", 0) != 0 || colon <= 4 ||
            inet_pton(AF_INET, text.substr(4, colon - 4).c_str(), &internet->sin_addr) != 1) {
            errno = EINVAL;
            fail(text);
        }
        internet->sin_port = htons(static_cast<uint16_t>(std::atoi(text.c_str() + colon + 1)));
        length = sizeof *internet;
    }

    int socket() const {
        const int made = ::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (made < 0) fail("socket");
        return made;
    }
};

static void tune(int socket) {
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // fails on Unix sockets, which need it not
}

static int listening(const std::string &text) {
    const Address address(text);
    const int socket = address.socket(), on = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(socket, reinterpret_cast<const sockaddr *>(&address.storage), address.length) || listen(socket, 64)) fail(text);
    std::printf("ready\n");
    std::fflush(stdout);
    return socket;
}

static int connected(const std::string &text) {
    const Address address(text);
    const int socket = address.socket();
    if (connect(socket, reinterpret_cast<const sockaddr *>(&address.storage), address.length)) return close(socket), -1;
    tune(socket);
    return socket;
}

// One direction of a connection.
class Pipe {
  public:
    Pipe(int from, int to, Nanoseconds delay) : from(from), to(to), delay(delay) {}

    void run() {
        std::vector<char> buffer(CHUNK);
        while (!ended || !waiting.empty()) {
            const Nanoseconds left = waiting.empty() ? -1 : std::max(waiting.front().due - now(), 0LL);
            if (left == 0) {
                if (!send_first()) break;
            } else if (ended) {
                if (left > SPIN) sleep_for(left - SPIN);
            } else if (readable(left)) {
                receive(buffer);
            }
        }
        shutdown(to, SHUT_WR);
    }

  private:
    struct Chunk {
        Nanoseconds due;
        std::vector<char> bytes;
        size_t sent;
    };

    static void sleep_for(Nanoseconds left) {
        const timespec time{left / 1'000'000'000, left % 1'000'000'000};
        nanosleep(&time, nullptr);
    }

    // Waits for bytes, at most until the first chunk is nearly due; without waiting when that is soon.
    bool readable(Nanoseconds left) const {
        pollfd wanted{from, POLLIN, 0};
        const Nanoseconds wait = left < 0 ? -1 : std::max(left - SPIN, 0LL);
        const timespec time{wait / 1'000'000'000, wait % 1'000'000'000};
        return ppoll(&wanted, 1, wait < 0 ? nullptr : &time, nullptr) > 0;
    }

    void receive(std::vector<char> &buffer) {
        const ssize_t got = recv(from, buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (got > 0) {
            waiting.push_back({now() + delay, std::vector<char>(buffer.begin(), buffer.begin() + got), 0});
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            ended = true;
        }
    }

    bool send_first() {
        Chunk &chunk = waiting.front();
        const ssize_t sent = send(to, chunk.bytes.data() + chunk.sent, chunk.bytes.size() - chunk.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            if (errno != EAGAIN && errno != EINTR) return false;
            pollfd wanted{to, POLLOUT, 0};
            poll(&wanted, 1, 1);  // the receiver is slow: bytes that arrive meanwhile are late by at most this
            return true;
        }
        chunk.sent += static_cast<size_t>(sent);
        if (chunk.sent == chunk.bytes.size()) waiting.pop_front();
        return true;
    }

    int from, to;
    Nanoseconds delay;
    std::deque<Chunk> waiting;
    bool ended = false;
};

static void serve(int client, const std::string target, Nanoseconds delay) {
    const int server = connected(target);
    if (server < 0) {
        close(client);
        return;
    }
    std::thread back([=] { Pipe(server, client, delay).run(); });
    Pipe(client, server, delay).run();
    back.join();
    close(client);
    close(server);
}

static int forward(double microseconds, const std::string &listen, const std::string &target) {
    const int socket = listening(listen);
    const auto delay = static_cast<Nanoseconds>(microseconds * 1000.0 / 2.0);
    for (;;) {
        const int client = accept4(socket, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0) fail("accept");
        tune(client);
        std::thread([=] {
            prctl(PR_SET_TIMERSLACK, 1UL);
            serve(client, target, delay);
        }).detach();
    }
}

static int echo(const std::string &listen) {
    const int socket = listening(listen);
    for (;;) {
        const int client = accept4(socket, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0) fail("accept");
        tune(client);
        std::thread([client] {
            std::vector<char> buffer(CHUNK);
            for (ssize_t got; (got = read(client, buffer.data(), buffer.size())) > 0;) {
                for (ssize_t done = 0, sent; done < got; done += sent) {
                    if ((sent = write(client, buffer.data() + done, static_cast<size_t>(got - done))) <= 0) break;
                }
            }
            close(client);
        }).detach();
    }
}

static int ping(int rounds, size_t bytes, const std::string &target) {
    const int socket = connected(target);
    if (socket < 0) fail(target);
    std::vector<char> message(bytes, 'x');
    std::vector<double> times;
    for (int round = 0; round < rounds + rounds / 10; ++round) {
        const Nanoseconds start = now();
        if (write(socket, message.data(), bytes) != static_cast<ssize_t>(bytes)) fail("write");
        for (size_t got = 0; got < bytes;) {
            const ssize_t more = read(socket, message.data(), bytes - got);
            if (more <= 0) fail("read");
            got += static_cast<size_t>(more);
        }
        if (round >= rounds / 10) times.push_back(static_cast<double>(now() - start) / 1000.0);
    }
    std::sort(times.begin(), times.end());
    auto quantile = [&](double q) { return times[static_cast<size_t>(q * static_cast<double>(times.size() - 1))]; };
    std::printf("{\"median\": %.3f, \"p10\": %.3f, \"p90\": %.3f}\n", quantile(0.5), quantile(0.1), quantile(0.9));
    return 0;
}

int main(int count, char **arguments) {
    signal(SIGPIPE, SIG_IGN);
    const std::vector<std::string> words(arguments + 1, arguments + count);
    if (words.size() == 4 && words[0] == "forward") {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        return forward(std::atof(words[1].c_str()), words[2], words[3]);
    }
    if (words.size() == 2 && words[0] == "echo") {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        return echo(words[1]);
    }
    if (words.size() == 4 && words[0] == "ping") {
        return ping(std::atoi(words[1].c_str()), static_cast<size_t>(std::atol(words[2].c_str())), words[3]);
    }
    std::fprintf(stderr, "usage: delay_proxy forward MICROSECONDS LISTEN TARGET | echo LISTEN | ping ROUNDS BYTES TARGET\n");
    return 2;
}
