import Foundation
import NativeWork

extension Kind {
  static let files = [
    Kind("writeJournal", writeJournal), Kind("readFromPipe", readFromPipe), Kind("receiveFromPeer", receiveFromPeer),
    Kind("listFiles", listFiles),
  ]
}

/// Writes, flushes to the disk, and reads back.
@inline(never)
private func writeJournal(until end: UInt64) {
  var path = Array("/tmp/culprit-journal-XXXXXX".utf8CString)
  let file = mkstemp(&path)
  guard file >= 0 else { return }
  unlink(path)
  defer { close(file) }
  var bytes = [UInt8](repeating: 42, count: 64 << 10)
  var sum = 0
  while isBefore(end) {
    sum &+= pwrite(file, bytes, bytes.count, 0)
    fsync(file)
    sum &+= pread(file, &bytes, bytes.count, 0)
  }
  keep(sum)
}

@inline(never)
private func readFromPipe(until end: UInt64) {
  var ends: [Int32] = [0, 0]
  guard pipe(&ends) == 0 else { return }
  let writing = ends[1]
  let writer = Helper(then: { sleepThread(until: end) }, afterwards: { close(writing) })
  var byte: UInt8 = 0
  keep(read(ends[0], &byte, 1))
  writer.leave()
  close(ends[0])
}

/// Receives from a TCP peer on this machine.
@inline(never)
private func receiveFromPeer(until end: UInt64) {
  let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
  let peer = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
  defer { for descriptor in [listener, peer] { close(descriptor) } }
  var address = sockaddr_in()
  address.sin_family = sa_family_t(AF_INET)
  address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
  var length = socklen_t(MemoryLayout<sockaddr_in>.size)
  // SAFETY: the address outlives the calls, which get its size.
  let isConnected = withUnsafeMutablePointer(to: &address) {
    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
      bind(listener, address, length) == 0 && listen(listener, 1) == 0 && getsockname(listener, address, &length) == 0
        && connect(peer, address, length) == 0
    }
  }
  let connection = isConnected ? accept(listener, nil, nil) : -1
  guard connection >= 0 else { return }
  defer { close(connection) }
  let sender = Helper(then: { sleepThread(until: end) }, afterwards: { _ = send(peer, [UInt8(1)], 1, 0) })
  var byte: UInt8 = 0
  keep(recv(connection, &byte, 1, 0))
  sender.leave()
}

@inline(never)
private func listFiles(until end: UInt64) {
  var count = 0
  while isBefore(end) {
    let names = try? FileManager.default.contentsOfDirectory(atPath: "/usr/bin")
    count &+= names?.filter { $0.hasPrefix("l") }.count ?? 0
  }
  keep(count)
}
