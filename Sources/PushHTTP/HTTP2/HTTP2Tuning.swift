import NIOCore

/// What the HTTP/2 pool decides by itself.
///
/// Tests change it to reach in milliseconds what takes hours.
struct HTTP2Tuning: Sendable {
    /// How often deadlines, silence and idleness are looked at: so much later than its deadline a call may end.
    var tick = TimeAmount.milliseconds(50)
    /// How long the window must have been full, with calls waiting, before another connection is opened.
    var growAfter = TimeAmount.seconds(1)
    /// How long a connection may give no answer, with calls open, before it gets no more of them.
    var stalledAfter = TimeAmount.seconds(5)
    /// How often a call that was surely not processed is sent before that is reported.
    var maximumTries = 3
    /// Where between 0 and 1 the next wait for a reconnect falls: full jitter.
    var jitter: @Sendable () -> Double = { .random(in: 0...1) }
    /// The most bytes of the unfinished answers of all connections together, unless one answer may be larger.
    var answerBudget = 64 << 20
    /// The first stream ID of a connection, when not 1.
    var firstStreamID: Int32?
}
