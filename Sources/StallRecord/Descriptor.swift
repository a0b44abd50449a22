/// The descriptor that a blocked thread's system call was on, as the kernel told it.
package struct Descriptor: Hashable, Sendable {
  /// The descriptor's number.
  package var number: Int32
  /// What `/proc` had for it: a path, `socket:[4711]`, `anon_inode:[eventfd]`.
  package var target: String
  /// Whether the beginning of the target is missing, because it was too long.
  package var isCut: Bool
  /// The address of a socket, as in `struct sockaddr`; empty where there is none.
  package var address: [UInt8]
  /// Whether it is that of whom the socket was connected to, and not its own.
  package var isPeersAddress: Bool
  /// How many bytes had come and were not read; `nil` if unknown.
  package var unreadBytes: UInt32?
  /// How many bytes had been written that nobody had taken; `nil` if unknown.
  package var unsentBytes: UInt32?

  /// What was behind the descriptor `number`.
  package init(
    number: Int32,
    target: String,
    isCut: Bool = false,
    address: [UInt8] = [],
    isPeersAddress: Bool = false,
    unreadBytes: UInt32? = nil,
    unsentBytes: UInt32? = nil
  ) {
    self.number = number
    self.target = target
    self.isCut = isCut
    self.address = address
    self.isPeersAddress = isPeersAddress
    self.unreadBytes = unreadBytes
    self.unsentBytes = unsentBytes
  }
}
