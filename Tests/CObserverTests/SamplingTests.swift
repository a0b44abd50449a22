import CCulpritObserver
import Testing

/// What the monitor and the samplers tell each other.
@Suite struct SamplingTests {
  /// A sampler that says that it is ready once more, when the monitor has put it to work already, would take no stack ever
  /// after: the monitor believes it to be at work, and it believes itself to be a spare one.
  @Test func aSamplerThatHasBeenPutToWorkStaysAtWork() throws {
    let sampling = try #require(observer_sampling_create())
    defer { observer_sampling_destroy(sampling) }
    observer_sampler_ready(sampling, 0)
    #expect(observer_sampler_state(sampling, 0) == OBSERVER_SAMPLER_SPARE)
    observer_sampler_activate(sampling, 0)
    observer_sampler_ready(sampling, 0)
    #expect(observer_sampler_state(sampling, 0) == OBSERVER_SAMPLER_ACTIVE)
    #expect(observer_sampling_is_at_work(sampling))
  }

  @Test func aSamplerThatWasHeldUpComesBackAsASpareOne() throws {
    let sampling = try #require(observer_sampling_create())
    defer { observer_sampling_destroy(sampling) }
    observer_sampler_ready(sampling, 0)
    observer_sampler_activate(sampling, 0)
    observer_sampler_begin_step(sampling, 0, 3, 4711)
    #expect(observer_sampler_give_up(sampling, 0) == 3)
    #expect(observer_sampling_avoids(sampling, 4711))
    #expect(observer_sampling_held_up(sampling) == 1)
    #expect(!observer_sampling_is_at_work(sampling))
    observer_sampler_end_step(sampling, 0)
    observer_sampler_come_back(sampling, 0)
    #expect(observer_sampler_state(sampling, 0) == OBSERVER_SAMPLER_SPARE)
    #expect(!observer_sampling_avoids(sampling, 4711))
  }
}
