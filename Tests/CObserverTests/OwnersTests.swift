import CCulpritObserver
import Testing

@Suite struct OwnersTests {
  init() throws { try #require(canReadMemory) }

  private func withOwners(_ body: (UnsafeMutablePointer<observer_owners>) throws -> Void) rethrows {
    let owners = UnsafeMutablePointer<observer_owners>.allocate(capacity: 1)
    owners.initialize(to: observer_owners())
    defer { owners.deallocate() }
    try body(owners)
  }

  private func set(_ owners: UnsafeMutablePointer<observer_owners>, _ ids: [Int32]) {
    observer_owners_set(owners, ids, ids.count)
  }

  private func places(_ owners: UnsafeMutablePointer<observer_owners>) -> [Int32] {
    (0..<observer_owners_used(owners)).map { observer_owners_at(owners, $0) }
  }

  @Test func threadKeepsItsEntry() {
    withOwners { owners in
      #expect(places(owners) == [])
      set(owners, [7, 8, 9])
      #expect(places(owners) == [7, 8, 9])
      set(owners, [9, 10, 7])
      #expect(places(owners) == [7, 10, 9])
      set(owners, [])
      #expect(places(owners) == [0, 0, 0])
      set(owners, [11])
      #expect(places(owners) == [11, 0, 0])
      for place in 0..<UInt32(3) {
        #expect(observer_slot_owner(observer_owners_address(owners, place)) == observer_owners_at(owners, place))
      }
    }
  }

  @Test func ignoresThreadsBeyondCapacity() {
    withOwners { owners in
      let most = Int32(OBSERVER_OWNERS_MAX)
      set(owners, Array(1...most + 5))
      #expect(places(owners) == Array(1...most))
      set(owners, Array(3...most + 5))
      #expect(Set(places(owners)) == Set(3...most + 2))
      #expect(Array(places(owners).suffix(Int(most) - 2)) == Array(3...most))
    }
  }

  @Test func slotLosesOwnersOnReuse() {
    withOwners { owners in
      var slot = observer_slot()
      #expect(observer_slot_read(&slot).owner_kind == OBSERVER_OWNER_WORD)
      observer_slot_set_owners(&slot, owners)
      #expect(observer_slot_read(&slot).owner_kind == OBSERVER_OWNER_THREADS)
      #expect(observer_slot_read(&slot).owner.threads == UnsafePointer(owners))
      observer_slot_set_addresses(&slot, 4711, 0)
      #expect(observer_slot_read(&slot).owner_kind == OBSERVER_OWNER_WORD)
      observer_slot_set_owners(&slot, owners)
      _ = observer_slot_configure(&slot, observer_limits(1, 2, 3, 4))
      #expect(
        observer_slot_read(&slot).owner_kind == OBSERVER_OWNER_WORD && observer_slot_read(&slot).owner.tid_address == 0
      )
    }
  }
}
