import NIOCore

/// The HTTP/2 pool's own settings.
///
/// Tests change them to reach within milliseconds what takes hours.
struct HTTP2Tuning: Sendable {
    /// The interval of checks for deadlines, silence and idleness; a call may end later than its deadline by this much.
    var tick = TimeAmount.milliseconds(50)
    /// The time that all connections must have been full, with calls waiting, before another one is opened.
    var growAfter = TimeAmount.seconds(1)
    /// The time for which no call may wait before the connections no longer count as full.
    var emptyFor = TimeAmount.milliseconds(100)
    /// The time without an answer, with calls open, after which a connection gets no more calls.
    var stalledAfter = TimeAmount.seconds(5)
    /// The most times that a call is sent that was surely not processed, before that is reported.
    var maximumTries = 3
    /// The random factor, from 0 to 1, of the next wait for a reconnect: full jitter.
    var jitter: @Sendable () -> Double = { .random(in: 0...1) }
    /// The most bytes of the unfinished answers of all connections together, unless one answer may be larger.
    var answerBudget = 64 << 20
    /// The first stream ID of a connection, when not 1.
    var firstStreamID: Int32?
}
