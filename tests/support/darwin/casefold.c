// A preloaded library, as a stand-in for a file system that ignores case, where the kernel has none (tmpfs -o casefold).
// Written for the issue on macOS; calls that it lacked (symlink, opendir, chdir, openat2, statx, link) are added here.
// Case-insensitive, case-preserving names below $CASEFOLD_ROOT, as on APFS: cc -shared -fPIC -o casefold.so casefold.c -ldl; LD_PRELOAD=./casefold.so CASEFOLD_ROOT=/some/dir PROGRAM
#define _GNU_SOURCE
#include <dlfcn.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
static const char *ROOT="/nonexistent";
__attribute__((constructor)) static void init(void){const char*r=getenv("CASEFOLD_ROOT"); if(r&&*r)ROOT=r;}
typedef long (*syscall_t)(long,...);
static long raw(long n,...){static syscall_t real; if(!real) real=(syscall_t)dlsym(RTLD_NEXT,"syscall"); va_list a; va_start(a,n); long x[6]; for(int i=0;i<6;i++) x[i]=va_arg(a,long); va_end(a); return real(n,x[0],x[1],x[2],x[3],x[4],x[5]);}
static int under(const char*p){size_t n=strlen(ROOT);return !strncmp(p,ROOT,n)&&(p[n]==0||p[n]=='/');}
static int raw_exists(const char*p){struct stat s;return raw(SYS_newfstatat,AT_FDCWD,p,&s,AT_SYMLINK_NOFOLLOW)==0;}
static void match(const char*dir,const char*name,char*out){ // out = name as on disk, or name
  strcpy(out,name); char f[8192]; snprintf(f,sizeof f,"%s/%s",dir,name); if(raw_exists(f))return;
  int fd=raw(SYS_openat,AT_FDCWD,dir,O_RDONLY|O_DIRECTORY|O_CLOEXEC,0); if(fd<0)return;
  char buf[32768]; long n; while((n=raw(SYS_getdents64,fd,buf,sizeof buf))>0){ for(long i=0;i<n;){ struct {unsigned long long ino;long long off;unsigned short len;unsigned char t;char nm[];} *d=(void*)(buf+i); if(!strcasecmp(d->nm,name)){strcpy(out,d->nm);close(fd);return;} i+=d->len; } }
  close(fd);
}
static const char* fix(int dfd,const char*path,char*out){
  if(!path||!*path) return path; int e=errno; char cur[8192]; const char*p=path;
  if(*p=='/'){ if(!under(p)) {errno=e;return path;} strcpy(cur,ROOT); p+=strlen(ROOT); }
  else { char l[64]; if(dfd==AT_FDCWD){ if(!getcwd(cur,sizeof cur)){errno=e;return path;} } else { snprintf(l,64,"/proc/self/fd/%d",dfd); ssize_t n=raw(SYS_readlink,l,cur,sizeof cur-1); if(n<0){errno=e;return path;} cur[n]=0; } if(!under(cur)){errno=e;return path;} }
  int abs=(*path=='/'); out[0]=0; if(abs) strcpy(out,ROOT);
  char tmp[8192]; strncpy(tmp,p,sizeof tmp-1); tmp[sizeof tmp-1]=0; char*save; int first=1;
  for(char*t=strtok_r(tmp,"/",&save);t;t=strtok_r(NULL,"/",&save)){ char m[512]; if(!strcmp(t,".")||!strcmp(t,"..")||strlen(t)>255) strcpy(m,strlen(t)>255?"":t); else match(cur,t,m); if(strlen(t)>255){errno=e;return path;}
    if(abs||!first) strcat(out,"/"); strcat(out,m); first=0; strcat(cur,"/"); strcat(cur,m); }
  if(!out[0]) strcpy(out,path); errno=e; return out;
}
#define R(name) static __typeof__(name)*r; if(!r) r=dlsym(RTLD_NEXT,#name)
#define B char b[8192]
#define B2 char b[8192],c[8192]
int open(const char*p,int f,...){va_list a;va_start(a,f);mode_t m=(f&(O_CREAT|__O_TMPFILE))?va_arg(a,int):0;va_end(a);B;R(open);return r(fix(AT_FDCWD,p,b),f,m);}
int open64(const char*p,int f,...){va_list a;va_start(a,f);mode_t m=(f&(O_CREAT|__O_TMPFILE))?va_arg(a,int):0;va_end(a);B;R(open64);return r(fix(AT_FDCWD,p,b),f,m);}
int openat(int d,const char*p,int f,...){va_list a;va_start(a,f);mode_t m=(f&(O_CREAT|__O_TMPFILE))?va_arg(a,int):0;va_end(a);B;R(openat);return r(d,fix(d,p,b),f,m);}
int openat64(int d,const char*p,int f,...){va_list a;va_start(a,f);mode_t m=(f&(O_CREAT|__O_TMPFILE))?va_arg(a,int):0;va_end(a);B;R(openat64);return r(d,fix(d,p,b),f,m);}
int stat(const char*p,struct stat*s){B;R(stat);return r(fix(AT_FDCWD,p,b),s);}
int lstat(const char*p,struct stat*s){B;R(lstat);return r(fix(AT_FDCWD,p,b),s);}
int stat64(const char*p,struct stat64*s){B;R(stat64);return r(fix(AT_FDCWD,p,b),s);}
int lstat64(const char*p,struct stat64*s){B;R(lstat64);return r(fix(AT_FDCWD,p,b),s);}
int fstatat(int d,const char*p,struct stat*s,int f){B;R(fstatat);return r(d,fix(d,p,b),s,f);}
int fstatat64(int d,const char*p,struct stat64*s,int f){B;R(fstatat64);return r(d,fix(d,p,b),s,f);}
int unlink(const char*p){B;R(unlink);return r(fix(AT_FDCWD,p,b));}
int unlinkat(int d,const char*p,int f){B;R(unlinkat);return r(d,fix(d,p,b),f);}
int rmdir(const char*p){B;R(rmdir);return r(fix(AT_FDCWD,p,b));}
int mkdir(const char*p,mode_t m){B;R(mkdir);return r(fix(AT_FDCWD,p,b),m);}
int mkdirat(int d,const char*p,mode_t m){B;R(mkdirat);return r(d,fix(d,p,b),m);}
int access(const char*p,int m){B;R(access);return r(fix(AT_FDCWD,p,b),m);}
int faccessat(int d,const char*p,int m,int f){B;R(faccessat);return r(d,fix(d,p,b),m,f);}
int chmod(const char*p,mode_t m){B;R(chmod);return r(fix(AT_FDCWD,p,b),m);}
int fchmodat(int d,const char*p,mode_t m,int f){B;R(fchmodat);return r(d,fix(d,p,b),m,f);}
ssize_t readlink(const char*p,char*o,size_t n){B;R(readlink);return r(fix(AT_FDCWD,p,b),o,n);}
ssize_t readlinkat(int d,const char*p,char*o,size_t n){B;R(readlinkat);return r(d,fix(d,p,b),o,n);}
int symlinkat(const char*t,int d,const char*p){B;R(symlinkat);return r(t,d,fix(d,p,b));}
int linkat(int d,const char*p,int e,const char*q,int f){B2;R(linkat);return r(d,fix(d,p,b),e,fix(e,q,c),f);}
// a rename onto the same file under another case is a change of case; a rename onto another keeps the target's directory entry name on APFS? (it takes the new name)
static int ren(int d,const char*p,int e,const char*q,unsigned fl){B2;const char*x=fix(d,p,b);const char*y=fix(e,q,c);
  struct stat s,t; if(!fl&&raw(SYS_newfstatat,d,x,&s,AT_SYMLINK_NOFOLLOW)==0&&raw(SYS_newfstatat,e,y,&t,AT_SYMLINK_NOFOLLOW)==0&&strcmp(y,q)){ if(s.st_ino==t.st_ino) return raw(SYS_renameat2,d,x,e,q,0); int n=raw(SYS_renameat2,d,x,e,y,0); return n; }
  return raw(SYS_renameat2,d,x,e,y,fl);}
int rename(const char*p,const char*q){return ren(AT_FDCWD,p,AT_FDCWD,q,0);}
int renameat(int d,const char*p,int e,const char*q){return ren(d,p,e,q,0);}
int renameat2(int d,const char*p,int e,const char*q,unsigned f){return ren(d,p,e,q,f);}
int symlink(const char*t,const char*p){B;R(symlink);return r(t,fix(AT_FDCWD,p,b));}
int link(const char*p,const char*q){B2;R(link);return r(fix(AT_FDCWD,p,b),fix(AT_FDCWD,q,c));}
int chdir(const char*p){B;R(chdir);return r(fix(AT_FDCWD,p,b));}
DIR*opendir(const char*p){B;R(opendir);return r(fix(AT_FDCWD,p,b));}
int statx(int d,const char*restrict p,int f,unsigned int m,struct statx*restrict s){B;R(statx);return r(d,fix(d,p,b),f,m,s);}
int utimensat(int d,const char*p,const struct timespec t[2],int f){B;R(utimensat);return r(d,fix(d,p,b),t,f);}
int truncate(const char*p,off_t n){B;R(truncate);return r(fix(AT_FDCWD,p,b),n);}
char*realpath(const char*restrict p,char*restrict o){B;R(realpath);return r(fix(AT_FDCWD,p,b),o);}
#define SYSCALL_OPENAT2 437
long syscall(long n,...){va_list a; va_start(a,n); long x[6]; for(int i=0;i<6;i++) x[i]=va_arg(a,long); va_end(a); char b[8192];
  if(n==SYSCALL_OPENAT2) x[1]=(long)fix((int)x[0],(const char*)x[1],b);
  return raw(n,x[0],x[1],x[2],x[3],x[4],x[5]);}
