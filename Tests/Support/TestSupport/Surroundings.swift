import Foundation
import Testing

/// Conditions of tests that need more privileges than an ordinary user of a container has. Tests are skipped with a
/// reason if their condition fails.
extension Trait where Self == ConditionTrait {
  package static func needsRoot(to purpose: String) -> Self { .enabled(if: geteuid() == 0, "needs root to \(purpose)") }

  package static var needsMounts: Self { .enabled(if: Surroundings.isAdministrator, "needs to mount file systems") }

  package static var needsNamespaces: Self { .enabled(if: Surroundings.isAdministrator, "needs namespaces") }

  /// Needs to mount file systems that a process serves.
  package static var needsFUSE: Self {
    .enabled(if: Surroundings.isAdministrator && access("/dev/fuse", R_OK | W_OK) == 0, "needs FUSE")
  }

  /// Needs page faults in the kernel to be handled by a process.
  package static var needsUserfaultfd: Self { .enabled(if: Surroundings.hasUserfaultfd, "needs userfaultfd") }

  package static var needsThreadIDs: Self {
    // Any user can open the file, but writing needs CAP_SYS_ADMIN.
    .enabled(
      if: Surroundings.isAdministrator && access("/proc/sys/kernel/ns_last_pid", W_OK) == 0,
      "needs to choose thread IDs"
    )
  }

  package static var needsUnlimitedLockedMemory: Self {
    .enabled(if: Surroundings.locksWithoutLimit, "needs to lock memory without a limit")
  }

  /// Needs to write to /tmp, even if TMPDIR is set.
  package static func needsTmp(because reason: String) -> Self {
    .enabled(if: access("/tmp", W_OK) == 0, "needs to write to /tmp: \(reason)")
  }
}

/// Rights of this process.
package enum Surroundings {
  /// Whether this process has CAP_SYS_ADMIN and the system calls that need it. Root in a container usually has neither.
  ///
  /// umount2(2) checks the path before the capability. A seccomp filter refuses the call before both checks.
  package static let isAdministrator: Bool = has(capability: 21) && !(umount2("", 0) < 0 && errno == EPERM)

  static let hasUserfaultfd: Bool = {
    // Swift cannot call syscall(2) itself, which has a variable argument list.
    typealias Call = @convention(c) (Int, Int32) -> Int
    guard let symbol = dlsym(nil, "syscall") else { return false }
    // SAFETY: the supported architectures pass the same arguments in the same registers.
    let call = unsafeBitCast(symbol, to: Call.self)
    #if arch(x86_64)
      let number = 323
    #else
      let number = 282
    #endif
    let descriptor = call(number, O_CLOEXEC)
    guard descriptor >= 0 else { return false }
    close(Int32(descriptor))
    return true
  }()

  static let locksWithoutLimit: Bool = {
    var limit = rlimit()
    return has(capability: 14)
      || getrlimit(__rlimit_resource_t(__RLIMIT_MEMLOCK.rawValue), &limit) == 0
        && limit.rlim_cur == rlim_t.max
  }()

  /// Whether the capability with this number (capabilities(7)) is effective.
  private static func has(capability: UInt64) -> Bool {
    let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
    let line = status.split(separator: "\n").first { $0.hasPrefix("CapEff:") }
    return (line.flatMap { UInt64($0.dropFirst(7).drop { $0 == "\t" }, radix: 16) } ?? 0) & (1 << capability) != 0
  }
}
