/* Reads records until a sum is reached. The error path is cold, and restores registers that the end has no need for. */
struct stream {
  const unsigned char *at, *end;
  long (*fill)(struct stream *);
  void (*done)(struct stream *, long);
  long error;
};

long read_record(struct stream *s, unsigned char *to, long most);
long damaged(struct stream *s, long at) __attribute__((cold));

long read_all(struct stream *s, unsigned char *to, long most)
{
  long total = 0;
  if (s->at == s->end) {
    total = s->fill(s);
    if (total <= 0)
      goto out;
  }
  {
    unsigned char *start = to;
    long left = most;
    long kind = *s->at;
    do {
      long n = read_record(s, to, left);
      if (n < 0 || (n == 0 && s->fill(s) == kind)) {
        total = damaged(s, to - start);
        goto out;
      }
      to += n;
      left -= n;
    } while (left > kind);
    total = to - start;
  }
out:
  s->done(s, total);
  return total;
}
