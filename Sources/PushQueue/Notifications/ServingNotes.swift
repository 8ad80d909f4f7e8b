/// A store that keeps a note of each run of a gateway, so that the next one learns of an end that was not in order.
package protocol ServingNotes: Sendable {
    /// Notes that the gateway takes requests, and so tells of a run before that did not end in order.
    func noteServing()
}
