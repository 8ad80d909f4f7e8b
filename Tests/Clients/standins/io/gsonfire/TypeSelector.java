package io.gsonfire;

/** Stands in for gson-fire, which Debian does not have: the generated client imports the name. */
public interface TypeSelector<T> {
}
