// OpenSSL's RAND_bytes() for the static agent, straight from the kernel's generator.
//
// An agent makes no keys, but reads them with the code that does. OpenSSL's own would bring 3.5 MB of providers into
// every duck's image, and with them dlopen and getaddrinfo, which a static program of glibc cannot have.
#include <cerrno>
#include <sys/random.h>

extern "C" int RAND_bytes(unsigned char* buffer, int wanted) {
  for (int done = 0; done < wanted;) {
    const ssize_t got = ::getrandom(buffer + done, static_cast<std::size_t>(wanted - done), 0);
    if (got < 0 && errno != EINTR) return 0;
    if (got > 0) done += static_cast<int>(got);
  }
  return 1;
}
