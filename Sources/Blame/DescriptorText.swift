import CulpritStallRecord

enum DescriptorText {
  /// Returns a description such as "/srv/journal.db", "a socket to 10.0.0.3:5432" or "a pipe"; `nil` if it adds nothing
  /// to the system call.
  static func of(_ descriptor: Descriptor) -> String? {
    let target = descriptor.target
    if target.hasPrefix("socket:[") { return socket(descriptor) }
    if target.hasPrefix("pipe:[") { return "a pipe" + counts(descriptor) }
    if target.hasPrefix("anon_inode:") {
      let kind = target.dropFirst("anon_inode:".count).filter { $0 != "[" && $0 != "]" }
      return kind == "eventpoll" ? nil : String(kind)
    }
    return descriptor.isCut ? "…" + target : target
  }

  private static func socket(_ descriptor: Descriptor) -> String {
    guard let address = address(descriptor.address) else { return "a socket" + counts(descriptor) }
    return "a socket \(descriptor.isPeersAddress ? "to" : "at") \(address)" + counts(descriptor)
  }

  private static func counts(_ descriptor: Descriptor) -> String {
    var parts: [String] = []
    if let unread = descriptor.unreadBytes, unread > 0 {
      parts.append(Formatting.count(Int(unread), "byte") + " unread")
    }
    if let unsent = descriptor.unsentBytes, unsent > 0 {
      parts.append(Formatting.count(Int(unsent), "byte") + " unsent")
    }
    return parts.isEmpty ? "" : " (\(parts.joined(separator: ", ")))"
  }

  // Address families from the kernel's include/linux/socket.h.
  private static let unix: UInt16 = 1
  private static let internet: UInt16 = 2
  private static let internet6: UInt16 = 10

  /// Returns the address in `bytes`, a `struct sockaddr` (unix(7), ip(7), ipv6(7)).
  static func address(_ bytes: [UInt8]) -> String? {
    guard bytes.count >= 2 else { return nil }
    let family = UInt16(bytes[0]) | UInt16(bytes[1]) << 8
    switch family {
    case unix where bytes.count > 2:
      let isAbstract = bytes[2] == 0
      let name = isAbstract ? bytes[3...] : bytes[2...].prefix { $0 != 0 }
      return name.isEmpty ? nil : (isAbstract ? "@" : "") + String(decoding: name, as: UTF8.self)
    case internet where bytes.count >= 8:
      return bytes[4..<8].map(String.init).joined(separator: ".") + ":\(port(bytes))"
    case internet6 where bytes.count >= 24: return "[\(internet6Text(Array(bytes[8..<24])))]:\(port(bytes))"
    default: return nil
    }
  }

  private static func port(_ bytes: [UInt8]) -> Int { Int(bytes[2]) << 8 | Int(bytes[3]) }

  private static func internet6Text(_ bytes: [UInt8]) -> String {
    if bytes[..<10].allSatisfy({ $0 == 0 }), bytes[10] == 0xff, bytes[11] == 0xff {
      return "::ffff:" + bytes[12...].map(String.init).joined(separator: ".")
    }
    let groups = stride(from: 0, to: 16, by: 2).map { UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]) }
    var best = 0..<0
    var start = 0
    while start < 8 {
      let end = groups[start...].firstIndex { $0 != 0 } ?? 8
      if end - start > max(best.count, 1) { best = start..<end }
      start = max(end, start) + 1
    }
    func text(_ part: ArraySlice<UInt16>) -> String { part.map { String($0, radix: 16) }.joined(separator: ":") }
    return best.isEmpty ? text(groups[...]) : text(groups[..<best.lowerBound]) + "::" + text(groups[best.upperBound...])
  }
}

package enum Formatting {
  package static func count(_ number: Int, _ noun: String) -> String { "\(number) \(noun)\(number == 1 ? "" : "s")" }
}
