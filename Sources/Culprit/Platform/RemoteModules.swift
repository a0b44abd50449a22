import CCulpritLinux
import CulpritStallRecord
import Synchronization

/// The modules of this process whose files are on file systems that somebody else answers for, a process or another
/// machine: such a file system may stop answering, and who reads from it then can be neither interrupted nor killed.
///
/// What unwinding needs of them is copied soon after they have been loaded. Their files are not opened in process.
/// Those on the file system of the service's own executable are not meant: when that does not answer, the service does
/// not run either.
///
/// The reporter's thread reads which modules there are, also for the recorder: that takes a lock of the kernel's, which a
/// stall may hold.
final class RemoteModules: Sendable {
  /// How often it is looked whether modules have come or gone.
  private static let interval: UInt64 = 5_000_000_000

  /// Looking takes no more than this part of the time.
  private static let timePart: UInt64 = 500

  /// Modules that have just been read count as the present ones for so many times the time that reading them took, of which so much
  /// counts: reading them takes half a percent of a processor, and they are a second old at most.
  private static let freshFactor: UInt64 = 199
  private static let freshTimeMax: UInt64 = 5_000_000

  /// So much is copied in all, in bytes; of what does not fit only what is in memory anyway is read.
  private static let bytesMax = 16 << 20

  /// How long who asks for the modules waits.
  private static let patience: UInt64 = 200_000_000

  private let reader: WakeUp
  private let reading = Mutex(Reading())
  private let lastLook = Mutex(Look())

  /// Modules that the thread reads which `reader` wakes, and which calls ``attend()``.
  init(reader: WakeUp) { self.reader = reader }

  private struct Look {
    /// Changes with the modules.
    var signature: UInt64 = 0
    var next: UInt64 = 0
  }

  /// What has been read of the modules of the process.
  private struct Reading {
    var modules: [Module] = []
    /// The time until which a request is answered with these modules: many stalls can be declared at once.
    var freshUntil: UInt64 = 0
    /// Who waits for it to be read anew; `nil` when nobody does.
    var request: Promise<Bool>?
  }
  /// One for the process, like its modules.
  private static let found = Mutex(Found())

  private struct Found {
    /// Where each begins, by the line of its mapping.
    var modules: [String: UInt64] = [:]
    var bytes = 0
    /// Why files must not be opened in process, by their paths.
    var unread: [String: String] = [:]
  }

  /// Why files must not be opened in process, by their paths.
  static var unread: [String: String] { found.withLock { $0.unread } }

  /// Reads them for the first time.
  func start() { reading.withLock { $0.modules = ProcessMap.modules() } }

  /// The modules as they were read last.
  var known: [Module] { reading.withLock { $0.modules } }

  /// The modules of this process. Those that were there when they were read last, when the kernel does not tell in
  /// time.
  func present() -> [Module] {
    let (request, isNew) = reading.withLock { reading -> (Promise<Bool>?, Bool) in
      if clinux_clock_ns() < reading.freshUntil { return (nil, false) }
      if let request = reading.request { return (request, false) }
      let request = Promise<Bool>()
      reading.request = request
      return (request, true)
    }
    // Who comes while an earlier one has not been answered does not wait as well.
    if isNew, let request {
      reader.notify()
      _ = request.wait(until: clinux_clock_ns() &+ Self.patience)
    }
    return reading.withLock { $0.modules }
  }

  /// Reads them for who has asked.
  private func answer() {
    guard let request = reading.withLock({ $0.request }) else { return }
    let began = clinux_clock_ns()
    var modules = ProcessMap.modules()
    let end = clinux_clock_ns()
    reading.withLock { reading in
      // Freed outside the lock: a stall may hold the allocator's lock, and threads that wait for this lock would hang, too.
      if !modules.isEmpty { swap(&reading.modules, &modules) }
      reading.freshUntil = end &+ Self.freshFactor &* min(clinux_clock_between_ns(began, end), Self.freshTimeMax)
      reading.request = nil
    }
    request.fulfill(true)
  }

  /// Reads them for a thread that waits, and looks for new ones when that is due. Returns when to call again.
  func attend() -> UInt64 {
    answer()
    return lastLook.withLock { look in
      let began = clinux_clock_ns()
      guard began >= look.next else { return look.next }
      var lines: UInt32 = 0
      let signature = resting { clinux_remote_signature(&lines) }
      if signature != look.signature { update() }
      look.signature = signature
      let end = clinux_clock_ns()
      look.next = end &+ max(Self.interval, clinux_clock_between_ns(began, end) &* Self.timePart)
      return look.next
    }
  }

  /// Starts a thread that copies tables of new remote modules and forgets unloaded ones. A file system might block it. Does
  /// nothing while an earlier thread is at work.
  private func update() {
    try? PosixThread(name: "culprit-modules") { [self] in
      _ = clinux_keep_root()
      Self.updating.withLockIfAvailable { _ in updateAlone() }
    }
    .detach()
  }

  private static let updating = Mutex(())

  private func updateAlone() {
    guard let maps = ProcessMap.readAll("/proc/thread-self/maps"),
      let mounts = ProcessMap.readAll("/proc/thread-self/mountinfo")
    else { return }
    let present = Self.modules(maps: maps, mounts: mounts, executable: ProcessMap.executablePath())
    // Not under the lock: copying waits for the file system, and who makes a report asks for what must not be opened.
    let known = Self.found.withLock { $0.modules }
    for (key, start) in known where present[key] == nil {
      clinux_remote_remove(start)
      Self.found.withLock { $0.modules[key] = nil }
    }
    for (key, module) in present where known[key] == nil {
      guard clinux_remote_add(module.start, module.end) else { continue }
      Self.found.withLock { found in
        found.modules[key] = module.start
        found.unread[module.path] = "it is on a \(module.fileSystem) file system, which may not answer"
      }
      for range in module.tables {
        let bytes = Int(clamping: range.upperBound - range.lowerBound)
        guard bytes <= Self.bytesMax - Self.found.withLock({ $0.bytes }) else { continue }
        let copied = resting { clinux_remote_copy(range.lowerBound, range.upperBound) }
        Self.found.withLock { $0.bytes += copied }
      }
    }
  }

  /// A module on such a file system.
  struct RemoteModule: Equatable {
    var path: String
    var fileSystem: String
    var start: UInt64
    var end: UInt64
    /// What is neither code nor can be written to: headers, tables, symbols.
    var tables: [Range<UInt64>]
  }

  /// Whether a file system of this type (proc_pid_mountinfo(5)) is answered for by a process or another machine.
  static func isRemote(_ type: Substring) -> Bool {
    type.hasPrefix("fuse") || type.hasPrefix("nfs")
      || [
        "virtiofs", "cifs", "smb3", "smbfs", "9p", "ceph", "afs", "lustre", "gpfs", "ocfs2", "gfs2", "coda", "vboxsf",
        "orangefs", "beegfs", "pvfs2", "prl_fs",
      ]
      .contains(type)
  }

  /// The modules on such file systems that `maps` shows, by a key that changes when something else is mapped there.
  ///
  /// - Parameters:
  ///   - maps: The text of `/proc/PID/maps`.
  ///   - mounts: The text of `/proc/PID/mountinfo`.
  ///   - executable: The path of the process's executable, whose file system is not meant.
  /// - Returns: The modules by their keys.
  static func modules(maps: String, mounts: String, executable: String) -> [String: RemoteModule] {
    // "36 35 0:53 / /mnt rw,relatime shared:1 - fuse.sshfs host:/ rw"
    var types: [String: String] = [:]
    for line in mounts.split(separator: "\n") {
      let fields = line.split(separator: " ")
      guard fields.count > 6, let separator = fields.firstIndex(of: "-"), separator + 1 < fields.count else { continue }
      if isRemote(fields[separator + 1]) { types[String(fields[2])] = String(fields[separator + 1]) }
    }
    guard !types.isEmpty else { return [:] }
    var found: [String: RemoteModule] = [:]
    var own: String?
    for line in maps.split(separator: "\n") {
      // "7f00a000-7f00b000 r-xp 00001000 00:35 1234   /mnt/plug-in.so"
      let fields = line.split(separator: " ", maxSplits: 5, omittingEmptySubsequences: true)
      guard fields.count == 6, let device = device(fields[3]) else { continue }
      let range = fields[0].split(separator: "-").compactMap { UInt64($0, radix: 16) }
      let path = String(fields[5].drop { $0 == " " })
      if path == executable { own = device }
      guard range.count == 2, range[0] < range[1], path.hasPrefix("/"), let type = types[device] else { continue }
      let key = "\(path) \(fields[3]) \(fields[4])"
      var module = found[key] ?? RemoteModule(path: path, fileSystem: type, start: range[0], end: range[1], tables: [])
      module.start = min(module.start, range[0])
      module.end = max(module.end, range[1])
      if fields[1].hasPrefix("r--") { module.tables.append(range[0]..<range[1]) }
      found[key] = module
    }
    if let own, types[own] != nil { found = found.filter { !$0.key.contains(" \(hexadecimal(own)) ") } }
    // Where one is loaded anew it may be elsewhere.
    return Dictionary(uniqueKeysWithValues: found.map { ("\($0.key) \($0.value.start)", $0.value) })
  }

  /// "00:35" as mountinfo writes it: "0:53".
  private static func device(_ text: Substring) -> String? {
    let numbers = text.split(separator: ":").compactMap { Int($0, radix: 16) }
    return numbers.count == 2 ? "\(numbers[0]):\(numbers[1])" : nil
  }

  /// The reverse.
  private static func hexadecimal(_ device: String) -> String {
    device.split(separator: ":").compactMap { Int($0) }
      .map { number in
        let digits = String(number, radix: 16)
        return digits.count < 2 ? "0" + digits : digits
      }
      .joined(separator: ":")
  }
}
