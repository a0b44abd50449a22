import CCulpritLinux
import CulpritStallRecord
import Glibc

/// Debug information from the servers in `DEBUGINFOD_URLS` (debuginfod(8)), through elfutils' client library, if
/// installed. Used only on explicit request, because requests take long and show the servers which programs run here.
///
/// The client library can wait minutes for a server, and its requests cannot be stopped at once. A separate thread
/// calls it, and callers wait a limited time. Files that arrive later are available at the next request.
package final class DebugInfoServers: @unchecked Sendable {
  // SAFETY: everything mutable is guarded by `lock`.

  package enum Patience: Sendable {
    /// The time for all requests since the last ``DebugInfoServers/renew()``.
    case total(Duration)
    /// The time without received data that ends all requests.
    case silence(Duration)
  }

  private struct Request {
    var buildID: [UInt8]
    var began: UInt64
    var heard: UInt64
    var bytes = 0
  }

  private let patience: Patience
  private let say: @Sendable (Message) -> Void
  private let start: @Sendable (@escaping @Sendable () -> Void) -> Bool
  private let lock: UnsafeMutablePointer<pthread_mutex_t>
  private let changed: UnsafeMutablePointer<pthread_cond_t>
  private var request: Request?
  private var answers: [[UInt8]: String?] = [:]
  private var deadline: UInt64 = 0
  /// Whether requests were cancelled or servers were silent too long.
  private var isOver = false
  private var isAborted = false

  package enum Message: Sendable {
    case isFetching(buildID: String)
    case gaveUp(buildID: String)
  }

  /// Uses the servers in the environment; `nil` without servers, or if the program has more privileges than its user.
  /// `start` runs its argument on a new thread and returns whether this succeeded. `say` receives progress messages on
  /// the caller's thread.
  package init?(
    patience: Patience,
    start: @escaping @Sendable (@escaping @Sendable () -> Void) -> Bool,
    say: @escaping @Sendable (Message) -> Void = { _ in }
  ) {
    // SAFETY: the string belongs to the environment, and is read immediately.
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
    // SAFETY: created by the initializer. A fetching thread would retain this object, so none is running.
    pthread_cond_destroy(changed)
    pthread_mutex_destroy(lock)
    changed.deallocate()
    lock.deallocate()
  }

  package func renew() {
    guard case .total(let time) = patience else { return }
    withLock { deadline = clinux_clock_ns().saturatingSum(time.wholeNanoseconds) }
  }

  package func cancel() {
    withLock {
      isOver = true
      isAborted = true
      pthread_cond_broadcast(changed)
    }
  }

  /// Waits for the client to give up its request, up to `time`. The client checks for cancellation once a second.
  package func finish(within time: Duration) {
    let end = clinux_clock_ns().saturatingSum(time.wholeNanoseconds)
    withLock { while request != nil, waitForChange(until: end) {} }
  }

  func path(of buildID: [UInt8]) -> String? {
    guard !buildID.isEmpty else { return nil }
    return withLock {
      if let answer = answers[buildID] { return answer }
      // A pending request has been abandoned by its caller. Not waiting again limits the delay by unresponsive servers.
      guard request == nil, !isOver, clinux_clock_ns() < end else { return nil }
      let began = clinux_clock_ns()
      request = Request(buildID: buildID, began: began, heard: began)
      isAborted = false
      guard start({ [self] in fetch(buildID) }) else {
        request = nil
        return nil
      }
      return wait(for: buildID)
    }
  }

  private func wait(for buildID: [UInt8]) -> String? {
    var hasReported = false
    while true {
      if let answer = answers[buildID] { return answer }
      let now = clinux_clock_ns()
      guard !isOver, let request, request.buildID == buildID else { return nil }
      if now >= end {
        if case .silence = patience {
          isOver = true
          isAborted = true
        }
        unlocked { say(.gaveUp(buildID: hexadecimal(buildID))) }
        return nil
      }
      if !hasReported, now &- request.began >= 1_000_000_000 {
        hasReported = true
        unlocked { say(.isFetching(buildID: hexadecimal(buildID))) }
        continue
      }
      _ = waitForChange(until: min(end, hasReported ? .max : request.began &+ 1_000_000_000))
    }
  }

  private var end: UInt64 {
    switch patience {
    case .total: deadline
    case .silence(let time): (request?.heard ?? clinux_clock_ns()).saturatingSum(time.wholeNanoseconds)
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
      // A cancelled request has no answer.
      if path != nil || !isAborted { answers[buildID] = .some(path) }
      request = nil
      pthread_cond_broadcast(changed)
    }
  }

  /// The functions of the library, loaded on first use; `nil` if it is not installed.
  private struct Client: @unchecked Sendable {
    // SAFETY: functions of a library that is never unloaded.
    let begin: Begin
    let find: Find
    let end: End
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
      // SAFETY: this object outlives the client, which this method ends.
      progress.setUserData(client, Unmanaged.passUnretained(self).toOpaque())
      progress.set(client) { client, part, whole in
        guard let data = Client.installed?.progress?.getUserData(client) else { return 0 }
        // SAFETY: the pointer that was set above.
        return Unmanaged<DebugInfoServers>.fromOpaque(data).takeUnretainedValue().heard(part, of: whole) ? 1 : 0
      }
    }
    var path: UnsafeMutablePointer<CChar>?
    // Unregisters the thread, because a registered thread would delay forks while it waits for a server.
    let worked = clinux_fork_rest()
    let descriptor = installed.find(client, buildID, Int32(buildID.count), &path)
    // Closed before the thread registers again, because registering might wait for a fork.
    if descriptor >= 0 { close(descriptor) }
    if worked { _ = clinux_fork_work() }
    guard descriptor >= 0, let path else { return nil }
    // SAFETY: the client returns a NUL-terminated string from malloc.
    defer { free(path) }
    return String(cString: path)
  }

  private func heard(_ part: Int, of whole: Int) -> Bool {
    withLock {
      if whole > 0, let last = request?.bytes, part > last {
        request?.bytes = part
        request?.heard = clinux_clock_ns()
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

  /// Waits for a change, with the lock held. Returns `false` at `deadline`.
  private func waitForChange(until deadline: UInt64) -> Bool {
    var time = timespec(tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
    let worked = clinux_fork_rest()
    defer { if worked { _ = clinux_fork_work() } }
    return pthread_cond_timedwait(changed, lock, &time) != ETIMEDOUT
  }
}
