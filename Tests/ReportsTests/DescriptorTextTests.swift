import CulpritStallRecord
import Testing

@testable import CulpritBlame
@testable import CulpritReports

@Suite struct DescriptorTextTests {
  @Test(arguments: [
    ("/srv/journal.db", "/srv/journal.db"), ("pipe:[4711]", "a pipe"), ("socket:[4711]", "a socket"),
    ("anon_inode:[eventfd]", "eventfd"), ("anon_inode:[timerfd]", "timerfd"), ("anon_inode:inotify", "inotify"),
    ("/memfd:cache (deleted)", "/memfd:cache (deleted)"), ("/dev/pts/0", "/dev/pts/0"),
    ("mnt:[4026531840]", "mnt:[4026531840]"),
  ]) func describesTargets(target: String, text: String) {
    #expect(DescriptorText.of(Descriptor(number: 3, target: target)) == text)
  }

  /// In epoll_wait, the epoll descriptor itself is not informative.
  @Test func omitsEpollAndMarksTruncation() {
    #expect(DescriptorText.of(Descriptor(number: 3, target: "anon_inode:[eventpoll]")) == nil)
    #expect(DescriptorText.of(Descriptor(number: 3, target: "deep/journal.db", isCut: true)) == "…deep/journal.db")
  }

  @Test func describesSocketsByAddress() {
    var socket = Descriptor(number: 3, target: "socket:[1]", address: [2, 0, 0x15, 0x38, 10, 0, 0, 3])
    #expect(DescriptorText.of(socket) == "a socket at 10.0.0.3:5432")
    socket.isPeersAddress = true
    #expect(DescriptorText.of(socket) == "a socket to 10.0.0.3:5432")
    (socket.unreadBytes, socket.unsentBytes) = (0, 4096)
    #expect(DescriptorText.of(socket) == "a socket to 10.0.0.3:5432 (4096 bytes unsent)")
    (socket.unreadBytes, socket.isPeersAddress) = (1, false)
    #expect(DescriptorText.of(socket) == "a socket at 10.0.0.3:5432 (1 byte unread, 4096 bytes unsent)")
  }

  @Test(
    arguments: [
      ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], "2001:db8::1"), ([0, 0, 0, 0, 0, 0, 0, 1], "::1"),
      ([0, 0, 0, 0, 0, 0, 0, 0], "::"),
      ([0x2001, 0xdb8, 0, 1, 1, 1, 1, 1], "2001:db8:0:1:1:1:1:1"), ([0x2001, 0, 0, 1, 0, 0, 0, 1], "2001:0:0:1::1"),
      ([0x2001, 0xdb8, 0, 0, 1, 0, 0, 1], "2001:db8::1:0:0:1"), ([0xfe80, 1, 1, 1, 1, 1, 0, 0], "fe80:1:1:1:1:1::"),
      ([0, 0, 0, 0, 0, 0xffff, 0x0a00, 3], "::ffff:10.0.0.3"),
    ] as [([UInt16], String)]
  ) func formatsIPv6Addresses(groups: [UInt16], text: String) {
    let bytes = groups.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xff)] }
    #expect(DescriptorText.address([10, 0, 0, 80, 0, 0, 0, 0] + bytes + [0, 0, 0, 0]) == "[\(text)]:80")
  }

  @Test func describesUnixSocketsByPath() {
    let name = Array("/run/db.sock".utf8)
    #expect(DescriptorText.address([1, 0] + name + [0, 7]) == "/run/db.sock")
    #expect(DescriptorText.address([1, 0, 0] + name) == "@/run/db.sock")
    #expect(DescriptorText.address([1, 0]) == nil && DescriptorText.address([1, 0, 0]) == nil)
    #expect(DescriptorText.address([]) == nil && DescriptorText.address([2, 0, 0, 80]) == nil)
    #expect(DescriptorText.address([16, 0, 0, 0, 0, 0, 0, 0]) == nil)
  }
}
