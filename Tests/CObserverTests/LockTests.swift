import CCulpritLinux
import CCulpritObserver
import Glibc
import Testing

@testable import Culprit

@Suite struct LockTests {
  init() throws { try #require(canReadMemory) }

  /// Returns the lock of a futex call on word `place` of memory with the content `words`.
  private func find(
    _ words: [UInt32],
    at place: Int = 0,
    _ operation: Int32,
    expecting value: UInt32,
    tid: Int32 = 1 << 29
  ) -> observer_lock {
    var lock = observer_lock()
    // Padding, because the search reads beyond the words.
    let memory = words + Array(repeating: 0, count: 16)
    memory.withUnsafeBytes { bytes in
      let address = UInt64(UInt(bitPattern: bytes.baseAddress)) + UInt64(4 * place)
      let arguments: [UInt64] = [address, UInt64(operation), UInt64(value), 0, 0, 0]
      observer_lock_find(tid, Self.futex, arguments, &lock)
      if lock.address != 0 { lock.address = lock.address &- UInt64(UInt(bitPattern: bytes.baseAddress)) }
    }
    return lock
  }

  #if arch(x86_64)
    private static let futex: Int64 = 202
  #else
    private static let futex: Int64 = 98
  #endif
  private let wait: Int32 = 0x80
  private let waitBitset: Int32 = 0x189
  private let lockPI: Int32 = 0x86
  private let me = UInt32(bitPattern: clinux_task_self())

  @Test func identifiesLockKindAndOwner() {
    let mutex = find([2, 1, me, 1, 0], wait, expecting: 2)
    #expect(mutex.kind == OBSERVER_LOCK_MUTEX.rawValue && mutex.holder == clinux_task_self() && !mutex.is_orphaned)
    #expect(find([2, 1, me, 1, 1], 0x89, expecting: 2).holder == clinux_task_self())
    let word = find([me | 0x8000_0000], lockPI, expecting: 0)
    #expect(word.kind == OBSERVER_LOCK_WORD.rawValue && word.holder == clinux_task_self())
    let written: [UInt32] = [2, 0, 3, 3, 0, 0, me]
    for place in [2, 3] {
      let lock = find(written, at: place, waitBitset, expecting: 3)
      #expect(lock.kind == OBSERVER_LOCK_RWLOCK.rawValue && lock.holder == clinux_task_self() && lock.address == 0)
    }
    let end = find([me], 0x109, expecting: me)
    #expect(end.kind == OBSERVER_LOCK_THREAD.rawValue && end.holder == clinux_task_self())
    #expect(find([me | 0x8000_0000, 1, me, 1, 16], wait, expecting: me | 0x8000_0000).holder == clinux_task_self())
  }

  @Test func rejectsMemoryThatIsNoLock() {
    let none = OBSERVER_LOCK_NONE.rawValue
    // The kernel's maximum is 4,194,304 (PID_MAX_LIMIT), so no thread has this id.
    let stranger: UInt32 = 4_194_304
    #expect(find([2, 1, 0, 1, 0], wait, expecting: 2).kind == none)
    #expect(find([1, 1, me, 1, 0], wait, expecting: 2).kind == none)
    #expect(find([2, 1, me, 0, 0], wait, expecting: 2).kind == none)
    #expect(find([2, 1, me, 1, 0x7fff], wait, expecting: 2).kind == none)
    #expect(find([stranger], lockPI, expecting: 0).kind == none)
    #expect(find([0], lockPI, expecting: 0).kind == none)
    #expect(find([me], wait, expecting: me).kind == none)
    #expect(find([stranger], 0x109, expecting: stranger).kind == none)
    #expect(find([8, 0, 3, 3, 0, 0, me], at: 2, waitBitset, expecting: 3).kind == none)
    #expect(find([0, 0, me, 0, 0, 0, me], at: 0, waitBitset, expecting: 0).kind == none)
    #expect(find([.max], wait, expecting: .max).kind == none)
    let orphan = find([2, 1, stranger, 1, 0], wait, expecting: 2)
    #expect(find([2, 1, stranger, 1, 128], 0, expecting: 2).kind == none)
    #expect(orphan.kind == OBSERVER_LOCK_MUTEX.rawValue && orphan.is_orphaned && orphan.holder == Int32(stranger))
  }

  @Test func unmappedMemoryHasNoLock() {
    var lock = observer_lock()
    for operation in [wait, waitBitset, lockPI, 0x109] {
      for value: UInt64 in [0, 2, 3, 0xffff_ffff] {
        observer_lock_find(clinux_task_self(), Self.futex, [8, UInt64(operation), value, 0, 0, 0], &lock)
        #expect(lock.kind == OBSERVER_LOCK_NONE.rawValue && observer_lock_holder(&lock) == 0)
      }
    }
    observer_lock_find(clinux_task_self(), 0, [0, 0, 0, 0, 0, 0], &lock)
    #expect(lock.kind == OBSERVER_LOCK_NONE.rawValue)
  }

  /// A stream's lock stores the address of the owner's thread descriptor, which contains the thread id.
  @Test func findsOwnersOfStreams() {
    observer_lock_know_threads()
    let own = UInt64(pthread_self())
    func stream(_ words: [UInt32], owner: UInt64) -> observer_lock {
      find(words + [UInt32(truncatingIfNeeded: owner), UInt32(owner >> 32)], wait, expecting: 2)
    }
    let held = stream([2, 1], owner: own)
    #expect(held.kind == OBSERVER_LOCK_STREAM.rawValue && held.holder == clinux_task_self())
    let none = OBSERVER_LOCK_NONE.rawValue
    #expect(stream([2, 0], owner: own).kind == none && stream([1, 1], owner: own).kind == none)
    for other: UInt64 in [0, 8, own + 4, own + 64, .max - 7] { #expect(stream([2, 1], owner: other).kind == none) }
  }

  @Test func limitsSamplingRateOfOwners() {
    var holders = observer_holders()
    let start: UInt64 = 1_000_000_000
    #expect(observer_holders_take(&holders, 7, start) && !observer_holders_take(&holders, 7, start + 999_999))
    #expect(observer_holders_take(&holders, 8, start) && observer_holders_take(&holders, 7, start + 1_000_000))
    observer_holders_rest(&holders, 7, start + 2_000_000)
    #expect(!observer_holders_take(&holders, 7, start + 501_999_999))
    #expect(observer_holders_take(&holders, 7, start + 502_000_000))
  }

  @Test func chainContainsEachThreadOnce() {
    var chain = observer_lock_chain()
    for tid in 1...Int32(OBSERVER_LOCK_CHAIN_MAX) {
      #expect(observer_lock_chain_add(&chain, tid) && !observer_lock_chain_add(&chain, 1))
    }
    #expect(!observer_lock_chain_add(&chain, 100))
  }
}
