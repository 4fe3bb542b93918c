package io.github.rousehq.rouse;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

import org.jspecify.annotations.Nullable;

/**
 * Rows of the server, of which pages are read as they are needed. Each iteration asks the server again.
 *
 * @param <T> what a row is
 */
public final class Listing<T> implements Iterable<T> {
    private final AsyncListing<T> async;

    Listing(AsyncListing<T> async) {
        this.async = async;
    }

    /**
     * Iterates over the rows.
     *
     * @return an iterator that reads pages as they are needed
     */
    @Override
    public Iterator<T> iterator() {
        Iterator<List<T>> pages = pages().iterator();
        return new Iterator<>() {
            private Iterator<T> rows = List.<T>of().iterator();

            @Override
            public boolean hasNext() {
                while (!rows.hasNext() && pages.hasNext()) {
                    rows = pages.next().iterator();
                }
                return rows.hasNext();
            }

            @Override
            public T next() {
                if (!hasNext()) {
                    throw new NoSuchElementException();
                }
                return rows.next();
            }
        };
    }

    /**
     * Returns the rows as a stream, which reads pages as they are needed.
     *
     * @return a sequential stream
     */
    public Stream<T> stream() {
        return StreamSupport.stream(Spliterators.spliteratorUnknownSize(iterator(), Spliterator.ORDERED | Spliterator.NONNULL), false);
    }

    /**
     * Returns the pages.
     *
     * @return lists of rows
     */
    public Iterable<List<T>> pages() {
        return () -> new Iterator<>() {
            private AsyncListing.@Nullable Page<T> last;

            @Override
            public boolean hasNext() {
                return last == null || last.hasNext();
            }

            @Override
            public List<T> next() {
                AsyncListing.Page<T> page = last;
                page = Calls.await(page == null ? async.first() : page.next());
                last = page;
                return page.rows();
            }
        };
    }

    /**
     * Reads all pages.
     *
     * @return all rows
     */
    public List<T> all() {
        List<T> rows = new ArrayList<>();
        forEach(rows::add);
        return rows;
    }
}
