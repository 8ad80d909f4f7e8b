/// A store that records each run of a gateway, so that the next run learns of an unclean end.
package protocol ServingNotes: Sendable {
    /// Records that the gateway takes requests, and reports the earlier run if that did not end cleanly.
    func noteServing()
}
