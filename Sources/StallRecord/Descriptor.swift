/// The descriptor of a blocked thread's system call, as described by the kernel.
package struct Descriptor: Hashable, Sendable {
  package var number: Int32
  /// The target of the link in `/proc`: a path, `socket:[4711]`, `anon_inode:[eventfd]`.
  package var target: String
  /// Whether the start of a long target is missing.
  package var isCut: Bool
  package var address: [UInt8]
  package var isPeersAddress: Bool
  /// The number of received but unread bytes; `nil` if unknown.
  package var unreadBytes: UInt32?
  /// The number of written bytes that the peer has not received; `nil` if unknown.
  package var unsentBytes: UInt32?

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
