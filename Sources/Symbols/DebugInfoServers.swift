import CCulpritLinux
import CulpritStallRecord
import Glibc

/// Debug information from the servers in `DEBUGINFOD_URLS` (debuginfod(8)), through elfutils' client library where that is
/// installed. To be asked for by whoever wants it: it takes long, and tells somebody what runs here.
///
/// The library waits for servers for minutes and cannot be stopped at once; so a thread of its own calls it, and who asks
/// waits for that thread only so long. What has come by then is used, what comes later is there when it is asked for again.
package final class DebugInfoServers: @unchecked Sendable {
  // SAFETY: everything mutable is guarded by `lock`.

  /// How long who asks waits.
  package enum Patience: Sendable {
    /// So long for everything that is asked between one ``renew()`` and the next.
    case total(Duration)
    /// For as long as something comes, and so long while nothing does.
    case silence(Duration)
  }

  private struct Request {
    var buildID: [UInt8]
    var began: UInt64
    /// When something came last.
    var heard: UInt64
    /// How much of the file had come then.
    var bytes = 0
  }

  private let patience: Patience
  private let say: @Sendable (Message) -> Void
  private let start: @Sendable (@escaping @Sendable () -> Void) -> Bool
  private let lock: UnsafeMutablePointer<pthread_mutex_t>
  private let changed: UnsafeMutablePointer<pthread_cond_t>
  private var request: Request?
  /// Paths of what was found, and `nil` for what no server has.
  private var answers: [[UInt8]: String?] = [:]
  private var deadline: UInt64 = 0
  /// Whether nobody asks any more: it was cancelled, or servers were silent for too long.
  private var isOver = false
  /// Whether the request that is under way is to be given up by the client.
  private var isAborted = false

  /// What there is to say meanwhile.
  package enum Message: Sendable {
    /// The file with this build-id is being fetched, and that takes a while.
    case isFetching(buildID: String)
    /// The file with this build-id did not come in time.
    case gaveUp(buildID: String)
  }

  /// The servers in the environment; `nil` when there are none, or the program has more privileges than whoever started it.
  ///
  /// - Parameters:
  ///   - patience: How long who asks waits.
  ///   - start: Starts a thread that runs what it is given; returns whether it could.
  ///   - say: Is told what there is to say, by whoever asks.
  package init?(
    patience: Patience,
    start: @escaping @Sendable (@escaping @Sendable () -> Void) -> Bool,
    say: @escaping @Sendable (Message) -> Void = { _ in }
  ) {
    // SAFETY: the variable belongs to the environment, and is looked at right away.
    guard let servers = clinux_environment("DEBUGINFOD_URLS"), servers[0] != 0 else { return nil }
    self.patience = patience
    self.start = start
    self.say = say
    lock = .allocate(capacity: 1)
    lock.initialize(to: pthread_mutex_t())
    pthread_mutex_init(lock, nil)
    changed = .allocate(capacity: 1)
    changed.initialize(to: pthread_cond_t())
    var attributes = pthread_condattr_t()
    pthread_condattr_init(&attributes)
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    pthread_cond_init(changed, &attributes)
    pthread_condattr_destroy(&attributes)
    renew()
  }

  deinit {
    // SAFETY: made by the initializer; a thread that fetches refers to this object, so there is none.
    pthread_cond_destroy(changed)
    pthread_mutex_destroy(lock)
    changed.deallocate()
    lock.deallocate()
  }

  /// Begins the time of ``Patience/total(_:)`` anew.
  package func renew() {
    guard case .total(let time) = patience else { return }
    withLock { deadline = Self.now() &+ Self.nanoseconds(time) }
  }

  /// Lets nobody wait any more, now or later, and has the client give up what it is about.
  package func cancel() {
    withLock {
      isOver = true
      isAborted = true
      pthread_cond_broadcast(changed)
    }
  }

  /// Waits until the client has given up what it was about, but not for longer than `time`: it looks once a second whether
  /// it is to, while it waits for servers.
  package func finish(within time: Duration) {
    let end = Self.now() &+ Self.nanoseconds(time)
    withLock { while request != nil, waitForChange(until: end) {} }
  }

  /// The path of the file with debug information for `buildID` in the client's cache; `nil` when no server has it, or none has
  /// said so in time.
  func path(of buildID: [UInt8]) -> String? {
    guard !buildID.isEmpty else { return nil }
    return withLock {
      if let answer = answers[buildID] { return answer }
      // Somebody has given up waiting for the one that is under way: servers that do not answer are waited for once.
      guard request == nil, !isOver, Self.now() < end else { return nil }
      let began = Self.now()
      request = Request(buildID: buildID, began: began, heard: began)
      isAborted = false
      guard start({ [self] in fetch(buildID) }) else {
        request = nil
        return nil
      }
      return wait(for: buildID)
    }
  }

  /// Waits for the answer, as long as the patience lasts.
  private func wait(for buildID: [UInt8]) -> String? {
    var hasTold = false
    while true {
      if let answer = answers[buildID] { return answer }
      let now = Self.now()
      guard !isOver, let request, request.buildID == buildID else { return nil }
      if now >= end {
        if case .silence = patience {
          isOver = true
          isAborted = true
        }
        unlocked { say(.gaveUp(buildID: hexadecimal(buildID))) }
        return nil
      }
      if !hasTold, now &- request.began >= 1_000_000_000 {
        hasTold = true
        unlocked { say(.isFetching(buildID: hexadecimal(buildID))) }
        continue
      }
      _ = waitForChange(until: min(end, hasTold ? .max : request.began &+ 1_000_000_000))
    }
  }

  /// When the patience is over, as it looks now.
  private var end: UInt64 {
    switch patience {
    case .total: deadline
    case .silence(let time): (request?.heard ?? Self.now()) &+ Self.nanoseconds(time)
    }
  }

  // MARK: the client

  private typealias Begin = @convention(c) () -> OpaquePointer?
  private typealias End = @convention(c) (OpaquePointer) -> Void
  private typealias Find =
    @convention(c) (
      OpaquePointer, UnsafePointer<UInt8>, Int32, UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>
    ) -> Int32
  private typealias Progress = @convention(c) (OpaquePointer, Int, Int) -> Int32
  private typealias SetProgress = @convention(c) (OpaquePointer, Progress) -> Void
  private typealias SetUserData = @convention(c) (OpaquePointer, UnsafeMutableRawPointer) -> Void
  private typealias GetUserData = @convention(c) (OpaquePointer) -> UnsafeMutableRawPointer?

  private func fetch(_ buildID: [UInt8]) {
    let path = ask(buildID)
    withLock {
      // What was given up is no answer.
      if path != nil || !isAborted { answers[buildID] = .some(path) }
      request = nil
      pthread_cond_broadcast(changed)
    }
  }

  /// The functions of the library, which is loaded when it is needed first; `nil` where it is not installed.
  private struct Client: @unchecked Sendable {
    // SAFETY: functions of a library that is never unloaded.
    let begin: Begin
    let find: Find
    let end: End
    /// Those that versions before 0.180 lack.
    let progress: (set: SetProgress, setUserData: SetUserData, getUserData: GetUserData)?

    static let installed = Client()

    private init?() {
      guard let library = SharedLibrary("libdebuginfod.so.1"),
        let begin = library.function("debuginfod_begin", as: Begin.self),
        let find = library.function("debuginfod_find_debuginfo", as: Find.self),
        let end = library.function("debuginfod_end", as: End.self)
      else { return nil }
      (self.begin, self.find, self.end) = (begin, find, end)
      if let set = library.function("debuginfod_set_progressfn", as: SetProgress.self),
        let setUserData = library.function("debuginfod_set_user_data", as: SetUserData.self),
        let getUserData = library.function("debuginfod_get_user_data", as: GetUserData.self)
      {
        progress = (set, setUserData, getUserData)
      } else {
        progress = nil
      }
    }
  }

  private func ask(_ buildID: [UInt8]) -> String? {
    guard let installed = Client.installed, let client = installed.begin() else { return nil }
    defer { installed.end(client) }
    if let progress = installed.progress {
      // SAFETY: this object outlives the client, which its own method ends.
      progress.setUserData(client, Unmanaged.passUnretained(self).toOpaque())
      progress.set(client) { client, part, whole in
        guard let data = Client.installed?.progress?.getUserData(client) else { return 0 }
        // SAFETY: what was set above.
        return Unmanaged<DebugInfoServers>.fromOpaque(data).takeUnretainedValue().heard(part, of: whole) ? 1 : 0
      }
    }
    var path: UnsafeMutablePointer<CChar>?
    // Whoever forks does not wait for a server.
    let worked = clinux_fork_rest()
    let descriptor = installed.find(client, buildID, Int32(buildID.count), &path)
    // At once: going on with the work may wait for a process that forks.
    if descriptor >= 0 { close(descriptor) }
    if worked { _ = clinux_fork_work() }
    guard descriptor >= 0, let path else { return nil }
    // SAFETY: the client returns a NUL-terminated string from malloc.
    defer { free(path) }
    return String(cString: path)
  }

  /// The client tells how much has come, or how often it has looked while nothing has: then it does not know the size. Returns
  /// whether it is to give up.
  private func heard(_ part: Int, of whole: Int) -> Bool {
    withLock {
      if whole > 0, let last = request?.bytes, part > last {
        request?.bytes = part
        request?.heard = Self.now()
        pthread_cond_broadcast(changed)
      }
      return isAborted
    }
  }

  // MARK: the lock

  private func withLock<Result>(_ body: () -> Result) -> Result {
    pthread_mutex_lock(lock)
    defer { pthread_mutex_unlock(lock) }
    return body()
  }

  private func unlocked(_ body: () -> Void) {
    pthread_mutex_unlock(lock)
    body()
    pthread_mutex_lock(lock)
  }

  /// Waits for a change, with the lock held. Returns whether it is not too late yet.
  private func waitForChange(until deadline: UInt64) -> Bool {
    var time = timespec(tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
    let worked = clinux_fork_rest()
    defer { if worked { _ = clinux_fork_work() } }
    return pthread_cond_timedwait(changed, lock, &time) != ETIMEDOUT
  }

  private static func now() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return clinux_clock_nanoseconds(time)
  }

  /// `time`, a hundred years at most.
  private static func nanoseconds(_ time: Duration) -> UInt64 {
    let seconds = min(max(time.components.seconds, 0), 3_000_000_000)
    return UInt64(seconds) * 1_000_000_000 + UInt64(max(time.components.attoseconds, 0) / 1_000_000_000)
  }
}
